//! Random programs. They are right by construction: indices are taken modulo a length, loops end, and no operation panics.

use super::program::{
    Binary, Bits, Body, Comparison, Cond, Expr, Narrow, Node, Operator, Output, OutputKind, Place, Position,
    Program, Shared, Shuffle, Step, Stmt, Ty, Unary, Vote,
};
use super::random::Random;
use super::values::canonical;

/// What an expression may use.
#[derive(Clone, Default)]
struct Scope {
    places: Vec<Place>,
    locals: Vec<(usize, Ty)>,
    uniforms: Vec<usize>,
    privates: bool,
    own: Option<Ty>,
    views: Vec<usize>,
}

/// A kernel of the seed: `number` tells those of one seed apart.
pub(super) fn program(seed: u64, number: usize) -> Program {
    let mut generator = Generator::new(Random::of_case(seed, number));
    if number % 4 == 3 {
        generator.index_kernel();
    } else {
        generator.block_kernel();
    }
    generator.program
}

struct Generator {
    random: Random,
    program: Program,
}

impl Generator {
    fn new(random: Random) -> Self {
        let program = Program {
            position: Position::Index1,
            extent: [1; 3],
            scalars: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            shared: Vec::new(),
            privates: Vec::new(),
            uniforms: Vec::new(),
            steps: Vec::new(),
            locals: 0,
        };
        Self { random, program }
    }

    fn index_kernel(&mut self) {
        let n = self.random.within(1, 700);
        (self.program.position, self.program.extent) = match self.random.below(4) {
            0 | 1 => (Position::Index1, [n, 1, 1]),
            2 => (Position::Index2, [n % 60 + 1, n % 17 + 1, 1]),
            _ => (Position::Index3, [n % 20 + 1, n % 7 + 1, n % 5 + 1]),
        };
        self.data();
        let places = match self.program.position {
            Position::Index1 => vec![Place::Index, Place::X],
            Position::Index2 => vec![Place::Index, Place::X, Place::Y],
            _ => vec![Place::X, Place::Y],
        };
        let scope = Scope {
            places,
            ..Scope::default()
        };
        self.outputs(&scope, &Scope::default());
        for output in 0..self.program.outputs.len() {
            if let OutputKind::Atomic { .. } = self.program.outputs[output].kind {
                let step = self.atomic(output, &scope);
                self.program.steps.push(step);
            }
        }
    }

    fn block_kernel(&mut self) {
        let position = match self.random.below(8) {
            0 => Position::Block2(32, self.random.within(1, 4)),
            1 => Position::Block2(8, self.random.pick(&[4, 8, 12])),
            2 => Position::Block2(self.random.within(3, 11), self.random.within(2, 7)),
            3 => Position::Block(self.random.within(1, 150)),
            _ => Position::Block(32 * self.random.within(1, 8)),
        };
        self.program.position = position;
        let [x, y] = self.program.block();
        let near = |random: &mut Random, side: usize| side * random.within(1, 3) - random.below(side);
        self.program.extent = match position {
            Position::Block2(..) => [near(&mut self.random, x), near(&mut self.random, y), 1],
            _ => [near(&mut self.random, x), 1, 1],
        };
        self.data();
        let uniform = Scope {
            places: vec![Place::Block],
            ..Scope::default()
        };
        for _ in 0..self.random.within(2, 4) {
            let ty = self.random.pick(&Ty::ALL);
            let uniforms = (0..self.program.uniforms.len()).collect();
            let value = self.expr(
                ty,
                2,
                &Scope {
                    uniforms,
                    ..uniform.clone()
                },
            );
            self.program.uniforms.push((ty, value));
        }
        for _ in 0..self.random.within(2, 4) {
            let ty = self.random.pick(&Ty::ALL);
            let mut scope = self.thread(&self.all_uniforms());
            scope.privates = false;
            let body = self.body(ty, 2, &scope);
            self.program.privates.push((ty, body));
        }
        // What shuffles, votes and matches are made of.
        for ty in [Ty::U32, Ty::U32] {
            let mut scope = self.thread(&self.all_uniforms());
            scope.privates = false;
            let body = self.body(ty, 1, &scope);
            self.program.privates.push((ty, body));
        }
        for _ in 0..self.random.within(1, 3) {
            let ty = self.random.pick(&Ty::ALL);
            let len = self.random.pick(&[1, 7, 32, 64, 100, 256]);
            let mut scope = self.thread(&self.all_uniforms());
            scope.places.push(Place::At);
            let init = self.body(ty, 2, &scope);
            self.program.shared.push(Shared { ty, len, init });
        }
        let uniforms = self.all_uniforms();
        let mut reading = self.thread(&uniforms);
        reading.views = (0..self.program.shared.len()).collect();
        let at_block_level = Scope {
            uniforms: uniforms.clone(),
            ..uniform
        };
        self.outputs(&reading, &at_block_level);
        let count = self.random.within(5, 12);
        self.program.steps = self.steps(count, &uniforms, 2);
    }

    fn all_uniforms(&self) -> Vec<usize> {
        (0..self.program.uniforms.len()).collect()
    }

    /// A thread of a block.
    fn thread(&self, uniforms: &[usize]) -> Scope {
        let mut places = vec![Place::Index, Place::Lane, Place::Warp, Place::X, Place::Block];
        if super::reference::has_y(self.program.position) {
            places.push(Place::Y);
        }
        Scope {
            places,
            uniforms: uniforms.to_vec(),
            privates: true,
            ..Scope::default()
        }
    }

    fn data(&mut self) {
        for _ in 0..self.random.below(3) {
            let ty = self.random.pick(&Ty::ALL);
            let bits = self.constant(ty);
            self.program.scalars.push((ty, bits));
        }
        for _ in 0..self.random.within(1, 3) {
            let ty = self.random.pick(&Ty::ALL);
            let len = self.random.within(1, 300);
            let values = (0..len).map(|_| self.constant(ty)).collect();
            self.program.inputs.push((ty, values));
        }
    }

    fn outputs(&mut self, reading: &Scope, at_block_level: &Scope) {
        let [width, height] = [self.program.blocks()[0], self.program.blocks()[1]];
        let threads: usize = self.program.extent.iter().product();
        for number in 0..self.random.within(2, 4) {
            let ty = self.random.pick(&Ty::ALL);
            // Shorter than the launch at times, and longer at others.
            let len = (threads * self.random.within(2, 5) / 4).max(1);
            let is_plane = matches!(self.program.position, Position::Index2 | Position::Block2(..));
            let kind = match self.random.below(8) {
                0 | 1 if number > 0 => OutputKind::Atomic {
                    operator: self.operator(Ty::U32),
                },
                2 if self.program.is_block() && number > 0 => OutputKind::PerBlock {
                    value: self.expr(ty, 2, at_block_level),
                },
                3 => {
                    let mut scope = reading.clone();
                    scope.places.push(Place::At);
                    let elements = self.random.pick(&[1, 2, 3, 4, 8]);
                    OutputKind::Chunk {
                        elements,
                        body: self.body(ty, 2, &scope),
                    }
                }
                4 if is_plane => {
                    let mut scope = reading.clone();
                    scope.places.push(Place::At);
                    OutputKind::Column {
                        rows: self.random.within(1, 5),
                        body: self.body(ty, 2, &scope),
                    }
                }
                _ => {
                    let mut scope = reading.clone();
                    scope.own = Some(ty);
                    let body = self.body(ty, 3, &scope);
                    OutputKind::PerThread {
                        guard: self.cond(1, &scope),
                        body,
                    }
                }
            };
            let (ty, len) = match &kind {
                OutputKind::Atomic { .. } => (self.random.pick(&Ty::INTEGERS), self.random.within(1, 40)),
                OutputKind::PerBlock { .. } => (ty, width * height + self.random.below(3)),
                OutputKind::Chunk { elements, .. } => (ty, len * elements - self.random.below(*elements)),
                OutputKind::Column { rows, .. } => (ty, len * rows),
                OutputKind::PerThread { .. } => (ty, len),
            };
            let initial = (0..len)
                .map(|_| {
                    let bits = self.constant(ty);
                    canonical(ty, bits)
                })
                .collect();
            self.program.outputs.push(Output { ty, kind, initial });
        }
    }

    fn atomic(&mut self, output: usize, scope: &Scope) -> Step {
        let ty = self.program.outputs[output].ty;
        let body = self.body(ty, 2, scope);
        Step::Atomic {
            output,
            guard: self.cond(1, scope),
            at: self.expr(Ty::U32, 1, scope),
            body,
        }
    }

    fn steps(&mut self, count: usize, uniforms: &[usize], depth: usize) -> Vec<Step> {
        (0..count).map(|_| self.step(uniforms, depth)).collect()
    }

    /// A private or a uniform variable of this type, if there is one.
    fn find(&mut self, variables: &[(usize, Ty)], wanted: impl Fn(Ty) -> bool) -> Option<(usize, Ty)> {
        let fitting: Vec<_> = variables.iter().copied().filter(|(_, ty)| wanted(*ty)).collect();
        (!fitting.is_empty()).then(|| self.random.pick(&fitting))
    }

    fn step(&mut self, uniforms: &[usize], depth: usize) -> Step {
        loop {
            if let Some(step) = self.try_step(uniforms, depth) {
                return step;
            }
        }
    }

    fn try_step(&mut self, uniforms: &[usize], depth: usize) -> Option<Step> {
        let privates: Vec<(usize, Ty)> = self.program.privates.iter().map(|p| p.0).enumerate().collect();
        let totals: Vec<(usize, Ty)> = uniforms
            .iter()
            .map(|u| (*u, self.program.uniforms[*u].0))
            .collect();
        let (dst, ty) = self.random.pick(&privates);
        let array = self.random.below(self.program.shared.len());
        let (array_ty, array_len) = (self.program.shared[array].ty, self.program.shared[array].len);
        let scope = self.thread(uniforms);
        let reading = Scope {
            views: (0..self.program.shared.len()).collect(),
            ..scope.clone()
        };
        let others = Scope {
            views: reading
                .views
                .iter()
                .copied()
                .filter(|other| *other != array)
                .collect(),
            ..scope.clone()
        };
        let at_block_level = Scope {
            places: vec![Place::Block],
            uniforms: uniforms.to_vec(),
            ..Scope::default()
        };
        let warps = self.program.has_whole_warps();
        Some(match self.random.below(24) {
            0 => Step::Map {
                dst,
                shared: false,
                body: self.body(ty, 3, &scope),
            },
            1 | 2 => Step::Map {
                dst,
                shared: true,
                body: self.body(ty, 3, &reading),
            },
            3 | 4 => {
                let shared = self.random.chance(1, 2);
                let mut scope = if shared { reading } else { scope };
                // The private that is changed is borrowed.
                (scope.own, scope.privates) = (Some(ty), false);
                Step::Update {
                    dst,
                    shared,
                    body: self.body(ty, 2, &scope),
                }
            }
            5 => {
                let mut scope = others;
                scope.places.push(Place::At);
                Step::Write {
                    array,
                    body: self.body(array_ty, 2, &scope),
                }
            }
            6 | 7 => Step::Each {
                array,
                body: self.body(
                    array_ty,
                    2,
                    &Scope {
                        own: Some(array_ty),
                        ..others
                    },
                ),
            },
            8 => {
                let mid = self.random.below(array_len);
                Step::Split {
                    array,
                    mid,
                    body: self.body(
                        array_ty,
                        2,
                        &Scope {
                            own: Some(array_ty),
                            ..reading
                        },
                    ),
                }
            }
            9 if !array_ty.is_float() => {
                let operator = self.operator(array_ty);
                let body = self.body(array_ty, 2, &others);
                Step::SharedAtomic {
                    array,
                    operator,
                    guard: self.cond(1, &others),
                    at: self.expr(Ty::U32, 1, &others),
                    body,
                }
            }
            10 | 11 => {
                let outputs = self.program.outputs.iter().enumerate();
                let atomics: Vec<usize> = outputs
                    .filter(|(_, o)| matches!(o.kind, OutputKind::Atomic { .. }))
                    .map(|o| o.0)
                    .collect();
                if atomics.is_empty() {
                    return None;
                }
                let output = self.random.pick(&atomics);
                self.atomic(output, &reading)
            }
            12 | 13 if warps => {
                let (src, _) = self.find(&privates, |other| other == ty)?;
                let (choice, _) = self.find(&privates, |ty| ty == Ty::U32)?;
                let lane = self.random.below(32);
                let kind = self.random.pick(&[
                    Shuffle::Down(lane),
                    Shuffle::Up(lane),
                    Shuffle::Xor(lane),
                    Shuffle::From(lane),
                    Shuffle::Any(choice),
                ]);
                Step::Shuffle { kind, dst, src }
            }
            14 if warps => {
                let (dst, _) = self.find(&privates, |ty| ty == Ty::U32)?;
                Step::WarpVote {
                    kind: self.random.pick(&[Vote::Any, Vote::All, Vote::Which]),
                    dst,
                    cond: self.cond(2, &scope),
                }
            }
            15 if warps => {
                let (dst, _) = self.find(&privates, |ty| ty == Ty::U32)?;
                let (src, _) = self.find(&privates, |ty| !ty.is_float())?;
                Step::WarpMatch { dst, src }
            }
            16 if warps => {
                let (src, _) = self.find(&privates, |other| other == ty)?;
                Step::WarpReduce {
                    operator: self.operator(ty),
                    dst,
                    src,
                }
            }
            17 if warps => {
                let (src, _) = self.find(&privates, |other| other == ty)?;
                Step::WarpScan {
                    operator: self.operator(ty),
                    inclusive: self.random.chance(1, 2),
                    dst,
                    src,
                }
            }
            18 if warps => {
                let (total, ty) = self.find(&totals, |_| true)?;
                let (src, _) = self.find(&privates, |other| other == ty)?;
                Step::Reduce {
                    operator: self.operator(ty),
                    total,
                    src,
                }
            }
            19 if warps => {
                let (total, ty) = self.find(&totals, |_| true)?;
                let (src, _) = self.find(&privates, |other| other == ty)?;
                let (dst, _) = self.find(&privates, |other| other == ty)?;
                Step::Scan {
                    operator: self.operator(ty),
                    inclusive: self.random.chance(1, 2),
                    dst,
                    total,
                    src,
                }
            }
            20 => {
                let (total, _) = self.find(&totals, |ty| ty == Ty::U32)?;
                Step::BlockVote {
                    kind: self.random.pick(&[Vote::Any, Vote::All, Vote::Which]),
                    total,
                    cond: self.cond(2, &reading),
                }
            }
            21 => {
                let (total, _) = self.find(&totals, |ty| ty == array_ty)?;
                Step::Broadcast {
                    total,
                    array,
                    at: self.random.below(array_len),
                }
            }
            22 if depth > 0 => {
                let cond = self.cond(1, &at_block_level);
                let (then, otherwise) = (self.random.within(1, 3), self.random.below(3));
                Step::If {
                    cond,
                    then: self.steps(then, uniforms, depth - 1),
                    otherwise: self.steps(otherwise, uniforms, depth - 1),
                }
            }
            23 if depth > 0 => {
                let count = self.expr(Ty::U32, 1, &at_block_level);
                let variable = self.program.uniforms.len();
                self.program.uniforms.push((
                    Ty::U32,
                    Expr {
                        ty: Ty::U32,
                        node: Node::Const(0),
                    },
                ));
                let rounds = self.random.within(1, 3);
                let body = self.steps(rounds, uniforms, depth - 1);
                Step::For {
                    variable,
                    count,
                    below: self.random.within(2, 5) as u32,
                    body,
                }
            }
            _ => {
                let (uniform, ty) = self.find(&totals, |_| true)?;
                Step::Set {
                    uniform,
                    value: self.expr(ty, 2, &at_block_level),
                }
            }
        })
    }

    fn operator(&mut self, ty: Ty) -> Operator {
        let all = [
            Operator::Sum,
            Operator::Min,
            Operator::Max,
            Operator::And,
            Operator::Or,
            Operator::Xor,
        ];
        let count = if ty.is_float() { 3 } else { 6 };
        self.random.pick(&all[..count])
    }

    /// Bits that matter: limits, powers of two, special floats, and any.
    fn constant(&mut self, ty: Ty) -> Bits {
        let any = self.random.bits();
        let small = self.random.below(40) as i64 - 8;
        let bits = match (ty, self.random.below(6)) {
            (Ty::F32, 0) => self.random.pick(&[
                0,
                0x8000_0000,
                0x7f80_0000,
                0xff80_0000,
                0x7fc0_0000,
                1,
                0x007f_ffff,
                0x7f7f_ffff,
                0x4f80_0000,
                0xcf00_0000,
            ]),
            (Ty::F64, 0) => self.random.pick(&[
                0,
                1 << 63,
                0x7ff0 << 48,
                0xfff0 << 48,
                0x7ff8 << 48,
                1,
                0x7fef_ffff_ffff_ffff,
                0x43f0 << 48,
                0xc3e0 << 48,
            ]),
            (Ty::F32, 1) => any >> 32,
            (Ty::F64, 1) => any,
            (Ty::F32, 2 | 3) => u64::from((small as f32).to_bits()),
            (Ty::F64, 2 | 3) => (small as f64).to_bits(),
            (Ty::F32, _) => u64::from(((any as i32) as f32 / 65536.0).to_bits()),
            (Ty::F64, _) => ((any as i32) as f64 / 65536.0).to_bits(),
            (_, 0) => self
                .random
                .pick(&[0, 1, u64::MAX, 0x8000_0000, 1 << 63, 0x7fff_ffff]),
            (_, 1) => 1 << (any & 63),
            (_, 2 | 3) => small as u64,
            _ => any,
        };
        if ty.bytes() == 4 { bits & 0xffff_ffff } else { bits }
    }

    fn body(&mut self, ty: Ty, depth: usize, scope: &Scope) -> Body {
        let mut scope = scope.clone();
        let count = self.random.below(3);
        let stmts = self.stmts(count, depth, &mut scope);
        Body {
            stmts,
            result: self.expr(ty, depth, &scope),
        }
    }

    fn stmts(&mut self, count: usize, depth: usize, scope: &mut Scope) -> Vec<Stmt> {
        (0..count).map(|_| self.stmt(depth, scope)).collect()
    }

    fn local(&mut self) -> usize {
        self.program.locals += 1;
        self.program.locals - 1
    }

    fn stmt(&mut self, depth: usize, scope: &mut Scope) -> Stmt {
        let inner = depth.saturating_sub(1);
        match self.random.below(4) {
            1 if !scope.locals.is_empty() => {
                let (variable, ty) = self.random.pick(&scope.locals);
                Stmt::Assign(variable, self.expr(ty, inner, scope))
            }
            2 if depth > 0 => {
                let cond = self.cond(1, scope);
                let (then, otherwise) = (self.random.within(1, 2), self.random.below(2));
                Stmt::If(
                    cond,
                    self.stmts(then, inner, &mut scope.clone()),
                    self.stmts(otherwise, inner, &mut scope.clone()),
                )
            }
            3 if depth > 0 => {
                let count = self.expr(Ty::U32, 1, scope);
                let variable = self.local();
                let mut scope = scope.clone();
                // Not among the locals, for nothing may be assigned to it: its value is read through a variable of the body's.
                let first = self.local();
                let copied = Stmt::Let(
                    first,
                    Expr {
                        ty: Ty::U32,
                        node: Node::Local(variable),
                    },
                );
                scope.locals.push((first, Ty::U32));
                let rounds = self.random.within(1, 2);
                let mut body = vec![copied];
                body.extend(self.stmts(rounds, inner, &mut scope));
                Stmt::For {
                    variable,
                    count,
                    below: self.random.within(2, 9) as u32,
                    body,
                }
            }
            _ => {
                let ty = self.random.pick(&Ty::ALL);
                let value = self.expr(ty, depth, scope);
                let variable = self.local();
                scope.locals.push((variable, ty));
                Stmt::Let(variable, value)
            }
        }
    }

    fn cond(&mut self, depth: usize, scope: &Scope) -> Cond {
        if depth > 0 && self.random.chance(1, 3) {
            let a = Box::new(self.cond(depth - 1, scope));
            return match self.random.below(3) {
                0 => Cond::Not(a),
                1 => Cond::And(a, Box::new(self.cond(depth - 1, scope))),
                _ => Cond::Or(a, Box::new(self.cond(depth - 1, scope))),
            };
        }
        let ty = self.random.pick(&Ty::ALL);
        let comparison = self.random.pick(&[
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Equal,
            Comparison::NotEqual,
        ]);
        Cond::Compare(
            comparison,
            self.expr(ty, depth, scope),
            self.expr(ty, depth, scope),
        )
    }

    fn expr(&mut self, ty: Ty, depth: usize, scope: &Scope) -> Expr {
        let node = if depth == 0 {
            self.leaf(ty, scope)
        } else {
            self.inner(ty, depth - 1, scope)
        };
        Expr { ty, node }
    }

    fn inner(&mut self, ty: Ty, depth: usize, scope: &Scope) -> Node {
        match self.random.below(10) {
            0 => {
                let all: &[Unary] = if ty.is_float() {
                    &[
                        Unary::Negate,
                        Unary::Abs,
                        Unary::Sqrt,
                        Unary::Floor,
                        Unary::Ceil,
                        Unary::Trunc,
                    ]
                } else {
                    &[
                        Unary::Not,
                        Unary::Negate,
                        Unary::CountOnes,
                        Unary::LeadingZeros,
                        Unary::TrailingZeros,
                        Unary::SwapBytes,
                        Unary::ReverseBits,
                    ]
                };
                Node::Unary(self.random.pick(all), Box::new(self.expr(ty, depth, scope)))
            }
            1 => {
                let from = self.random.pick(&Ty::ALL);
                Node::Cast(Box::new(self.expr(from, depth, scope)))
            }
            2 => {
                let through = self
                    .random
                    .pick(&[Narrow::U8, Narrow::I8, Narrow::U16, Narrow::I16]);
                Node::Narrow(through, Box::new(self.expr(ty, depth, scope)))
            }
            3 => {
                let from = match ty {
                    Ty::U32 => Ty::F32,
                    Ty::U64 => Ty::F64,
                    Ty::F32 => Ty::U32,
                    Ty::F64 => Ty::U64,
                    _ => return self.leaf(ty, scope),
                };
                Node::Transmute(Box::new(self.expr(from, depth, scope)))
            }
            4 => {
                let cond = Box::new(self.cond(0, scope));
                Node::Select(
                    cond,
                    Box::new(self.expr(ty, depth, scope)),
                    Box::new(self.expr(ty, depth, scope)),
                )
            }
            5 => self.leaf(ty, scope),
            _ => {
                use Binary as B;
                let all: &[Binary] = if ty.is_float() {
                    &[
                        B::Add,
                        B::Sub,
                        B::Mul,
                        B::Div,
                        B::Rem,
                        B::RemEuclid,
                        B::Min,
                        B::Max,
                        B::MulAdd,
                    ]
                } else {
                    &[
                        B::Add,
                        B::Sub,
                        B::Mul,
                        B::Div,
                        B::Rem,
                        B::RemEuclid,
                        B::And,
                        B::Or,
                        B::Xor,
                        B::Shl,
                        B::Shr,
                        B::Rotate,
                        B::Min,
                        B::Max,
                        B::SaturatingAdd,
                        B::SaturatingSub,
                        B::MulAdd,
                    ]
                };
                let mut operator = self.random.pick(all);
                // Long code: seldom.
                if matches!(operator, B::Rem | B::RemEuclid) && ty.is_float() && self.random.chance(3, 4) {
                    operator = B::Sub;
                }
                Node::Binary(
                    operator,
                    Box::new(self.expr(ty, depth, scope)),
                    Box::new(self.expr(ty, depth, scope)),
                )
            }
        }
    }

    fn leaf(&mut self, ty: Ty, scope: &Scope) -> Node {
        for _ in 0..8 {
            let found = match self.random.below(8) {
                0 => Some(Node::Const(self.constant(ty))),
                1 => self
                    .find(&scope.locals, |other| other == ty)
                    .map(|(variable, _)| Node::Local(variable)),
                2 => {
                    let uniforms: Vec<_> = scope
                        .uniforms
                        .iter()
                        .map(|u| (*u, self.program.uniforms[*u].0))
                        .collect();
                    self.find(&uniforms, |other| other == ty)
                        .map(|(variable, _)| Node::Uniform(variable))
                }
                3 => {
                    let scalars: Vec<_> = self.program.scalars.iter().map(|s| s.0).enumerate().collect();
                    self.find(&scalars, |other| other == ty)
                        .map(|(number, _)| Node::Scalar(number))
                }
                4 if scope.privates => {
                    let privates: Vec<_> = self.program.privates.iter().map(|p| p.0).enumerate().collect();
                    self.find(&privates, |other| other == ty)
                        .map(|(number, _)| Node::Private(number))
                }
                5 => match scope.own {
                    Some(own) if own == ty => Some(Node::Own),
                    _ if ty == Ty::U32 && !scope.places.is_empty() => {
                        Some(Node::Place(self.random.pick(&scope.places)))
                    }
                    _ => None,
                },
                6 => {
                    let inputs: Vec<_> = self.program.inputs.iter().map(|i| i.0).enumerate().collect();
                    let found = self.find(&inputs, |other| other == ty);
                    found.map(|(number, _)| Node::Input(number, Box::new(self.position(scope))))
                }
                7 => {
                    let views: Vec<_> = scope
                        .views
                        .iter()
                        .map(|v| (*v, self.program.shared[*v].ty))
                        .collect();
                    let found = self.find(&views, |other| other == ty);
                    found.map(|(number, _)| Node::View(number, Box::new(self.position(scope))))
                }
                _ => None,
            };
            if let Some(node) = found {
                return node;
            }
        }
        Node::Const(self.constant(ty))
    }

    /// Where an array is read: mostly by where the thread is.
    fn position(&mut self, scope: &Scope) -> Expr {
        let ty = Ty::U32;
        if scope.places.is_empty() {
            return Expr {
                ty,
                node: Node::Const(self.constant(ty)),
            };
        }
        let place = Expr {
            ty,
            node: Node::Place(self.random.pick(&scope.places)),
        };
        let offset = Expr {
            ty,
            node: Node::Const(self.random.below(70) as u64),
        };
        let operator = self
            .random
            .pick(&[Binary::Add, Binary::Xor, Binary::Mul, Binary::Sub]);
        Expr {
            ty,
            node: Node::Binary(operator, Box::new(place), Box::new(offset)),
        }
    }
}
