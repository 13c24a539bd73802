//! The reference: runs the syntax tree of a random kernel thread by thread, in plain Rust. It
//! shares no code with `device_std`.

use super::program::{
    Bits, Body, Cond, Expr, Node, Operator, OutputKind, Place, Position, Program, Shuffle, Step, Stmt, Ty,
    Vote,
};
use super::values::{binary, canonical, cast, combine, compare, identity, narrow, unary};

const WARP: usize = 32;

/// Runs a program and returns the final values of its outputs.
pub(super) fn run(program: &Program) -> Vec<Vec<Bits>> {
    let mut outputs: Vec<Vec<Bits>> = program
        .outputs
        .iter()
        .map(|output| output.initial.clone())
        .collect();
    if program.is_block() {
        let [width, height] = program.blocks();
        for y in 0..height {
            for x in 0..width {
                Block::new(program, [x, y], &mut outputs).run();
            }
        }
    } else {
        for z in 0..program.extent[2] {
            for y in 0..program.extent[1] {
                for x in 0..program.extent[0] {
                    Block::new(program, [x, y], &mut outputs).run_thread([x, y, z]);
                }
            }
        }
    }
    for (values, output) in outputs.iter_mut().zip(&program.outputs) {
        for value in values {
            *value = canonical(output.ty, *value);
        }
    }
    outputs
}

/// A block of a launch, or a thread of a kernel that takes an index.
struct Block<'a> {
    program: &'a Program,
    at: [usize; 2],
    size: [usize; 2],
    uniforms: Vec<Bits>,
    privates: Vec<Vec<Bits>>,
    shared: Vec<Vec<Bits>>,
    outputs: &'a mut Vec<Vec<Bits>>,
}

/// The thread's values that an expression may read.
#[derive(Clone)]
struct Env {
    /// Position in the block, or in the launch for a kernel that takes an index.
    x: usize,
    y: usize,
    index: usize,
    /// The position of the element that is written.
    at: usize,
    own: Bits,
    /// The start of the part of a shared array that is read.
    mid: Option<(usize, usize)>,
    locals: Vec<Bits>,
}

impl<'a> Block<'a> {
    fn new(program: &'a Program, at: [usize; 2], outputs: &'a mut Vec<Vec<Bits>>) -> Self {
        Self {
            program,
            at,
            size: program.block(),
            uniforms: Vec::new(),
            privates: Vec::new(),
            shared: Vec::new(),
            outputs,
        }
    }

    fn threads(&self) -> usize {
        self.size[0] * self.size[1]
    }

    fn env(&self, thread: usize) -> Env {
        Env {
            x: thread % self.size[0],
            y: thread / self.size[0],
            index: thread,
            at: 0,
            own: 0,
            mid: None,
            locals: vec![0; self.program.locals],
        }
    }

    /// The thread's position in the launch, if it lies inside the extent.
    fn in_launch(&self, thread: usize) -> Option<[usize; 2]> {
        let at = [
            self.at[0] * self.size[0] + thread % self.size[0],
            self.at[1] * self.size[1] + thread / self.size[0],
        ];
        (at[0] < self.program.extent[0] && at[1] < self.program.extent[1]).then_some(at)
    }

    fn run_thread(&mut self, [x, y, z]: [usize; 3]) {
        let [width, height, _] = self.program.extent;
        self.uniforms = self.program.uniforms.iter().map(|_| 0).collect();
        let mut env = self.env(0);
        (env.x, env.y, env.index) = (x, y, (z * height + y) * width + x);
        for step in &self.program.steps {
            let Step::Atomic {
                output,
                guard,
                at,
                body,
            } = step
            else {
                unreachable!("a kernel that takes an index has no phases");
            };
            self.atomic(*output, guard, at, body, &env);
        }
        self.write_outputs(&env, Some(([x, y], env.index)));
    }

    fn run(&mut self) {
        for (_, value) in &self.program.uniforms {
            let value = self.uniform(value);
            self.uniforms.push(value);
        }
        for (_, body) in &self.program.privates {
            let values = (0..self.threads())
                .map(|thread| self.body(body, &mut self.env(thread)))
                .collect();
            self.privates.push(values);
        }
        for shared in &self.program.shared {
            let values = self.elements(shared.len, &shared.init);
            self.shared.push(values);
        }
        self.steps(&self.program.steps);
        for thread in 0..self.threads() {
            let position = self
                .in_launch(thread)
                .map(|at| (at, at[1] * self.program.extent[0] + at[0]));
            let env = self.env(thread);
            self.write_outputs(&env, position);
        }
        for (number, output) in self.program.outputs.iter().enumerate() {
            if let OutputKind::PerBlock { value } = &output.kind {
                let at = self.at[1] * self.program.blocks()[0] + self.at[0];
                self.outputs[number][at] = self.uniform(value);
            }
        }
    }

    /// Writes one thread's outputs at its end. The position is given along x and y, and row-major.
    fn write_outputs(&mut self, env: &Env, position: Option<([usize; 2], usize)>) {
        let Some((at, position)) = position else { return };
        for (number, output) in self.program.outputs.iter().enumerate() {
            let len = self.outputs[number].len();
            let mut env = env.clone();
            match &output.kind {
                OutputKind::PerThread { guard, body } => {
                    if position < len {
                        env.own = self.outputs[number][position];
                        let value = self.body(body, &mut env);
                        if self.cond(guard, &env) {
                            self.outputs[number][position] = value;
                        }
                    }
                }
                OutputKind::Chunk { elements, body } => {
                    for k in 0..*elements {
                        let mut env = env.clone();
                        env.at = k;
                        let value = self.body(body, &mut env);
                        if let Some(element) = self.outputs[number].get_mut(position * elements + k) {
                            *element = value;
                        }
                    }
                }
                OutputKind::Column { rows, body } => {
                    for k in 0..*rows {
                        let mut env = env.clone();
                        env.at = k;
                        let value = self.body(body, &mut env);
                        let place = (at[1] * rows + k) * self.program.extent[0] + at[0];
                        if let Some(element) = self.outputs[number].get_mut(place) {
                            *element = value;
                        }
                    }
                }
                OutputKind::PerBlock { .. } | OutputKind::Atomic { .. } => {}
            }
        }
    }

    fn elements(&self, len: usize, body: &Body) -> Vec<Bits> {
        let element = |at: usize| {
            let mut env = self.env(at % self.threads());
            env.at = at;
            self.body(body, &mut env)
        };
        (0..len).map(element).collect()
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
    }

    /// The new value of each thread, from its own value.
    fn each_thread(
        &self,
        own: impl Fn(usize) -> Bits,
        mid: Option<(usize, usize)>,
        body: &Body,
    ) -> Vec<Bits> {
        let value = |thread: usize| {
            let mut env = self.env(thread);
            (env.own, env.mid) = (own(thread), mid);
            self.body(body, &mut env)
        };
        (0..self.threads()).map(value).collect()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Map { dst, body, .. } => self.privates[*dst] = self.each_thread(|_| 0, None, body),
            Step::Update { dst, body, .. } => {
                self.privates[*dst] = self.each_thread(|thread| self.privates[*dst][thread], None, body);
            }
            Step::Write { array, body } => {
                self.shared[*array] = self.elements(self.shared[*array].len(), body)
            }
            Step::Each { array, body } => {
                let len = self.shared[*array].len();
                self.own_elements(*array, len, None, body);
            }
            Step::Split { array, mid, body } => self.own_elements(*array, *mid, Some((*array, *mid)), body),
            Step::SharedAtomic {
                array,
                operator,
                guard,
                at,
                body,
            } => {
                let ty = self.program.shared[*array].ty;
                for thread in 0..self.threads() {
                    let mut env = self.env(thread);
                    let value = self.body(body, &mut env);
                    if self.cond(guard, &env) {
                        let at = self.expr(at, &env) as usize % self.shared[*array].len();
                        let element = &mut self.shared[*array][at];
                        *element = combine(*operator, ty, *element, value);
                    }
                }
            }
            Step::Atomic {
                output,
                guard,
                at,
                body,
            } => {
                for thread in 0..self.threads() {
                    let env = self.env(thread);
                    self.atomic(*output, guard, at, body, &env);
                }
            }
            Step::Shuffle { kind, dst, src } => self.shuffle(*kind, *dst, *src),
            Step::WarpVote { kind, dst, cond } => {
                let holds = self.holds(cond);
                self.privates[*dst] = by_warp(&holds, |warp| match kind {
                    Vote::Any => u64::from(warp.iter().any(|holds| *holds)),
                    Vote::All => u64::from(warp.iter().all(|holds| *holds)),
                    Vote::Which => (0..WARP).filter(|lane| warp[*lane]).map(|lane| 1 << lane).sum(),
                });
            }
            Step::WarpMatch { dst, src } => {
                let values = self.privates[*src].clone();
                let same = |thread: usize| {
                    let first = thread / WARP * WARP;
                    let lanes = (0..WARP).filter(|lane| values[first + lane] == values[thread]);
                    lanes.map(|lane| 1u64 << lane).sum()
                };
                self.privates[*dst] = (0..values.len()).map(same).collect();
            }
            Step::WarpReduce { operator, dst, src } => {
                let ty = self.program.privates[*src].0;
                let totals = by_warp(&self.privates[*src], |warp| tree(*operator, ty, warp));
                self.privates[*dst] = totals;
            }
            Step::WarpScan {
                operator,
                inclusive,
                dst,
                src,
            } => {
                let ty = self.program.privates[*src].0;
                let scanned = self.privates[*src]
                    .chunks(WARP)
                    .map(|warp| warp_scan(*operator, ty, warp));
                self.privates[*dst] = scanned
                    .flat_map(|warp| {
                        if *inclusive {
                            warp
                        } else {
                            shifted(*operator, ty, &warp)
                        }
                    })
                    .collect();
            }
            Step::Reduce { operator, total, src } => {
                let ty = self.program.privates[*src].0;
                let warps = self.privates[*src]
                    .chunks(WARP)
                    .map(|warp| tree(*operator, ty, warp));
                let all = warps.reduce(|before, warp| combine(*operator, ty, before, warp));
                self.uniforms[*total] = all.expect("a block has a warp");
            }
            Step::Scan {
                operator,
                inclusive,
                dst,
                total,
                src,
            } => {
                self.scan(*operator, *inclusive, *dst, *total, *src);
            }
            Step::BlockVote { kind, total, cond } => {
                let holds = self.holds(cond);
                self.uniforms[*total] = match kind {
                    Vote::Any => u64::from(holds.contains(&true)),
                    Vote::All => u64::from(!holds.contains(&false)),
                    Vote::Which => holds.iter().filter(|holds| **holds).count() as u64,
                };
            }
            Step::Broadcast { total, array, at } => self.uniforms[*total] = self.shared[*array][*at],
            Step::Set { uniform, value } => self.uniforms[*uniform] = self.uniform(value),
            Step::If {
                cond,
                then,
                otherwise,
            } => {
                let holds = self.cond(cond, &self.env(0));
                self.steps(if holds { then } else { otherwise });
            }
            Step::For {
                variable,
                count,
                below,
                body,
            } => {
                let rounds = self.uniform(count) as u32 % below;
                for round in 0..rounds {
                    self.uniforms[*variable] = u64::from(round);
                    self.steps(body);
                }
                // The loop's variable ends with the loop, and its number reads as 0 again.
                self.uniforms[*variable] = 0;
            }
        }
    }

    /// Threads below `len` change their elements. All other elements that they read keep their old
    /// values.
    fn own_elements(&mut self, array: usize, len: usize, mid: Option<(usize, usize)>, body: &Body) {
        let before = &self.shared[array];
        let own = |thread: usize| before[thread.min(len.saturating_sub(1))];
        let values = self.each_thread(own, mid, body);
        let count = len.min(values.len());
        self.shared[array][..count].copy_from_slice(&values[..count]);
    }

    fn atomic(&mut self, output: usize, guard: &Cond, at: &Expr, body: &Body, env: &Env) {
        let mut env = env.clone();
        let value = self.body(body, &mut env);
        if !self.cond(guard, &env) {
            return;
        }
        let described = &self.program.outputs[output];
        let OutputKind::Atomic { operator } = described.kind else {
            unreachable!("of atomics only");
        };
        let at = self.expr(at, &env) as usize % self.outputs[output].len();
        let element = &mut self.outputs[output][at];
        *element = combine(operator, described.ty, *element, value);
    }

    fn holds(&self, cond: &Cond) -> Vec<bool> {
        (0..self.threads())
            .map(|thread| self.cond(cond, &self.env(thread)))
            .collect()
    }

    fn shuffle(&mut self, kind: Shuffle, dst: usize, src: usize) {
        let from = |thread: usize| {
            let (first, lane) = (thread / WARP * WARP, thread % WARP);
            let other = match kind {
                Shuffle::Down(delta) => lane + delta,
                Shuffle::Up(delta) => lane.wrapping_sub(delta),
                Shuffle::Xor(mask) => lane ^ mask,
                Shuffle::From(other) => other,
                Shuffle::Any(choice) => self.privates[choice][thread] as usize % WARP,
            };
            // A lane whose source lies beyond the warp keeps its own value.
            first + if other < WARP { other } else { lane }
        };
        let values = (0..self.threads())
            .map(|thread| self.privates[src][from(thread)])
            .collect();
        self.privates[dst] = values;
    }

    fn scan(&mut self, operator: Operator, inclusive: bool, dst: usize, total: usize, src: usize) {
        let ty = self.program.privates[src].0;
        let mut before: Option<Bits> = None;
        let mut values = Vec::new();
        for warp in self.privates[src].chunks(WARP) {
            let scanned = warp_scan(operator, ty, warp);
            let with = |value: Bits| before.map_or(value, |before| combine(operator, ty, before, value));
            for lane in 0..WARP {
                values.push(match lane {
                    _ if inclusive => with(scanned[lane]),
                    0 => before.unwrap_or(identity(operator, ty)),
                    _ => with(scanned[lane - 1]),
                });
            }
            before = Some(with(scanned[WARP - 1]));
        }
        self.privates[dst] = values;
        self.uniforms[total] = before.expect("a block has a warp");
    }

    fn uniform(&self, value: &Expr) -> Bits {
        self.expr(value, &self.env(0))
    }

    fn body(&self, body: &Body, env: &mut Env) -> Bits {
        self.stmts(&body.stmts, env);
        self.expr(&body.result, env)
    }

    fn stmts(&self, stmts: &[Stmt], env: &mut Env) {
        for stmt in stmts {
            match stmt {
                Stmt::Let(variable, value) | Stmt::Assign(variable, value) => {
                    env.locals[*variable] = self.expr(value, env);
                }
                Stmt::If(cond, then, otherwise) => {
                    let branch = if self.cond(cond, env) { then } else { otherwise };
                    self.stmts(branch, env);
                }
                Stmt::For {
                    variable,
                    count,
                    below,
                    body,
                } => {
                    for round in 0..self.expr(count, env) as u32 % below {
                        env.locals[*variable] = u64::from(round);
                        self.stmts(body, env);
                    }
                }
            }
        }
    }

    fn cond(&self, cond: &Cond, env: &Env) -> bool {
        match cond {
            Cond::Compare(comparison, a, b) => {
                compare(*comparison, a.ty, self.expr(a, env), self.expr(b, env))
            }
            Cond::And(a, b) => self.cond(a, env) && self.cond(b, env),
            Cond::Or(a, b) => self.cond(a, env) || self.cond(b, env),
            Cond::Not(a) => !self.cond(a, env),
        }
    }

    fn expr(&self, expr: &Expr, env: &Env) -> Bits {
        let value = |inner: &Expr| self.expr(inner, env);
        match &expr.node {
            Node::Const(bits) => *bits,
            Node::Local(variable) => env.locals[*variable],
            Node::Uniform(variable) => self.uniforms[*variable],
            Node::Scalar(number) => self.program.scalars[*number].1,
            Node::Private(number) => self.privates[*number][env.index],
            Node::Own => env.own,
            Node::Place(place) => self.place(*place, env) as u32 as u64,
            Node::Input(number, at) => {
                let input = &self.program.inputs[*number].1;
                input[value(at) as usize % input.len()]
            }
            Node::View(number, at) => {
                let array = &self.shared[*number];
                let part = match env.mid {
                    Some((split, mid)) if split == *number => &array[mid..],
                    _ => &array[..],
                };
                part[value(at) as usize % part.len()]
            }
            Node::Unary(operator, a) => unary(*operator, expr.ty, value(a)),
            Node::Binary(operator, a, b) => binary(*operator, expr.ty, value(a), value(b)),
            Node::Select(cond, a, b) => value(if self.cond(cond, env) { a } else { b }),
            Node::Cast(a) => cast(a.ty, expr.ty, value(a)),
            Node::Narrow(through, a) => narrow(*through, expr.ty, value(a)),
            Node::Transmute(a) => canonical(a.ty, value(a)),
        }
    }

    fn place(&self, place: Place, env: &Env) -> usize {
        match place {
            Place::Index => env.index,
            Place::Lane => env.index % WARP,
            Place::Warp => env.index / WARP,
            Place::X => env.x,
            Place::Y => env.y,
            Place::Block => self.at[1] * self.program.blocks()[0] + self.at[0],
            Place::At => env.at,
        }
    }
}

fn by_warp<T>(values: &[T], f: impl Fn(&[T]) -> Bits) -> Vec<Bits> {
    values.chunks(WARP).flat_map(|warp| [f(warp); WARP]).collect()
}

/// Reduces a warp: lanes in pairs, pairs in fours, and so on.
fn tree(operator: Operator, ty: Ty, warp: &[Bits]) -> Bits {
    if let [one] = warp {
        return *one;
    }
    let (left, right) = warp.split_at(warp.len() / 2);
    combine(operator, ty, tree(operator, ty, left), tree(operator, ty, right))
}

/// The inclusive scan of a warp, over distances of 1, 2, 4, 8 and 16 lanes.
fn warp_scan(operator: Operator, ty: Ty, warp: &[Bits]) -> Vec<Bits> {
    let mut values = warp.to_vec();
    for distance in [1, 2, 4, 8, 16] {
        let before = values.clone();
        for lane in distance..WARP {
            values[lane] = combine(operator, ty, before[lane - distance], before[lane]);
        }
    }
    values
}

/// Shifts a scan by one lane, with the identity first.
fn shifted(operator: Operator, ty: Ty, warp: &[Bits]) -> Vec<Bits> {
    let mut values = vec![identity(operator, ty)];
    values.extend(&warp[..WARP - 1]);
    values
}

/// Whether the kernel's position has a y axis.
pub(super) fn has_y(position: Position) -> bool {
    !matches!(position, Position::Index1 | Position::Block(_))
}
