//! Makes random programs. They are correct by construction: indices are taken modulo a length,
//! loops end, and no operation panics.

use super::program::{
    Binary, Body, Comparison, Cond, Expr, Node, Output, OutputKind, Place, Position, Program, Shared,
    Shuffle, Step, Ty, Vote,
};
use super::random::Random;
use super::values::canonical;

/// The values that an expression may use.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) places: Vec<Place>,
    pub(super) locals: Vec<(usize, Ty)>,
    pub(super) uniforms: Vec<usize>,
    pub(super) privates: bool,
    pub(super) own: Option<Ty>,
    pub(super) views: Vec<usize>,
}

/// The program `number` of the seed.
pub(super) fn program(seed: u64, number: usize) -> Program {
    let mut generator = Generator::new(Random::of_case(seed, number));
    if number % 4 == 3 {
        generator.index_kernel();
    } else {
        generator.block_kernel();
    }
    generator.program
}

fn always() -> Cond {
    let zero = || Expr {
        ty: Ty::U32,
        node: Node::Const(0),
    };
    Cond::Compare(Comparison::Equal, zero(), zero())
}

/// A program under construction.
pub(super) struct Generator {
    pub(super) random: Random,
    pub(super) program: Program,
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
        // Privates of types for shuffles, votes and matches.
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
        self.digest();
    }

    /// Adds an output that depends on all variables and shared arrays, so that the effect of each
    /// step is seen.
    fn digest(&mut self) {
        let expr = |ty: Ty, node: Node| Expr { ty, node };
        let uniforms = self.program.uniforms.iter().enumerate();
        let privates = self.program.privates.iter().enumerate();
        let shared = self.program.shared.iter().enumerate();
        let at = || Box::new(expr(Ty::U32, Node::Place(Place::Index)));
        let values: Vec<Expr> = uniforms
            .map(|(n, (ty, _))| expr(*ty, Node::Uniform(n)))
            .chain(privates.map(|(n, (ty, _))| expr(*ty, Node::Private(n))))
            .chain(shared.map(|(n, shared)| expr(shared.ty, Node::View(n, at()))))
            .collect();
        let mut digest = expr(Ty::U64, Node::Const(0xcbf2_9ce4_8422_2325));
        for value in values {
            let bits = if value.ty.is_float() {
                expr(value.ty.bits(), Node::Transmute(Box::new(value)))
            } else {
                value
            };
            let wide = expr(Ty::U64, Node::Cast(Box::new(bits)));
            let mixed = expr(
                Ty::U64,
                Node::Binary(Binary::Xor, Box::new(digest), Box::new(wide)),
            );
            let prime = expr(Ty::U64, Node::Const(0x0000_0100_0000_01b3));
            digest = expr(
                Ty::U64,
                Node::Binary(Binary::Mul, Box::new(mixed), Box::new(prime)),
            );
        }
        let body = Body {
            stmts: Vec::new(),
            result: digest,
        };
        let threads: usize = self.program.extent.iter().product();
        let kind = OutputKind::PerThread {
            guard: always(),
            body,
        };
        self.program.outputs.push(Output {
            ty: Ty::U64,
            kind,
            initial: vec![0; threads],
        });
    }

    fn all_uniforms(&self) -> Vec<usize> {
        (0..self.program.uniforms.len()).collect()
    }

    /// The scope of a thread in a block.
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
            // The output may be shorter or longer than the launch.
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
                    let guard = if number == 0 {
                        always()
                    } else {
                        self.cond(1, &scope)
                    };
                    OutputKind::PerThread { guard, body }
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
                // The changed private is borrowed, so the body cannot read privates.
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
}
