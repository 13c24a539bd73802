//! Writes a random program as the Rust source of a kernel.

use std::fmt::Write;

use super::program::{
    Binary, Bits, Body, Comparison, Cond, Expr, Node, Output, OutputKind, Place, Position, Program, Shuffle,
    Step, Stmt, Ty, Unary, Vote,
};

/// The common first part of every file of random kernels.
pub(super) const PRELUDE: &str = "\
use device_std::prelude::*;
use device_std::{And, Max, Min, Or, Sum, Xor, accurate};

macro_rules! integers {
    ($($t:ident $div:ident $rem:ident $euclid:ident;)*) => { $(
        #[inline(always)]
        fn $div(a: $t, b: $t) -> $t { if b == 0 { a } else { a.wrapping_div(b) } }
        #[inline(always)]
        fn $rem(a: $t, b: $t) -> $t { if b == 0 { a } else { a.wrapping_rem(b) } }
        #[inline(always)]
        fn $euclid(a: $t, b: $t) -> $t { if b == 0 { a } else { a.wrapping_rem_euclid(b) } }
    )* };
}
integers! {
    u32 div_u32 rem_u32 euclid_u32;
    i32 div_i32 rem_i32 euclid_i32;
    u64 div_u64 rem_u64 euclid_u64;
    i64 div_i64 rem_i64 euclid_i64;
}
// -0.0 is smaller than 0.0 here. LLVM's code generator takes `if b < a { b } else { a }` for a
// minimum that does not say which of both zeros it gives, on each target that has one.
macro_rules! floats {
    ($($t:ident $canonical:ident $min:ident $max:ident $nan:literal;)*) => { $(
        #[inline(always)]
        fn $canonical(a: $t) -> $t { if a.is_nan() { $t::from_bits($nan) } else { a } }
        #[inline(always)]
        fn $min(a: $t, b: $t) -> $t {
            if b < a || (b == a && b.is_sign_negative()) { b } else { a }
        }
        #[inline(always)]
        fn $max(a: $t, b: $t) -> $t {
            if b > a || (b == a && b.is_sign_positive()) { b } else { a }
        }
    )* };
}
floats! {
    f32 canonical_f32 min_f32 max_f32 0x7fc00000;
    f64 canonical_f64 min_f64 max_f64 0x7ff8000000000000;
}
";

/// The kernel, called `name`. Its parameters are those of [`Program`], in the order of
/// [`parameters`].
pub(super) fn kernel(program: &Program, name: &str) -> String {
    let emitter = Emitter { program };
    let attribute = match program.position {
        Position::Block(x) => format!("#[kernel(block = {x})]"),
        Position::Block2(x, y) => format!("#[kernel(block = ({x}, {y}))]"),
        _ => "#[kernel]".to_owned(),
    };
    let parameters = parameters(program).join(", ");
    let body = if program.is_block() {
        emitter.block_level()
    } else {
        emitter.index_level()
    };
    format!("{attribute}\npub fn {name}({parameters}) {{\n{body}}}\n")
}

/// The types whose reductions need scratch memory.
fn scratch(program: &Program) -> Vec<Ty> {
    fn of(steps: &[Step], program: &Program, found: &mut Vec<Ty>) {
        for step in steps {
            match step {
                Step::Reduce { src, .. } | Step::Scan { src, .. } => {
                    let ty = program.privates[*src].0;
                    if !found.contains(&ty) {
                        found.push(ty);
                    }
                }
                Step::If { then, otherwise, .. } => {
                    of(then, program, found);
                    of(otherwise, program, found);
                }
                Step::For { body, .. } => of(body, program, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    of(&program.steps, program, &mut found);
    found
}

fn parameters(program: &Program) -> Vec<String> {
    let position = match program.position {
        Position::Index1 => "i: Index1",
        Position::Index2 => "i: Index2",
        Position::Index3 => "i: Index3",
        Position::Block(_) => "mut block: Block",
        Position::Block2(..) => "mut block: Block2",
    };
    let mut parameters = vec![position.to_owned()];
    let scalars = program.scalars.iter().enumerate();
    parameters.extend(scalars.map(|(n, (ty, _))| format!("s{n}: {}", ty.name())));
    let inputs = program.inputs.iter().enumerate();
    parameters.extend(inputs.map(|(n, (ty, _))| format!("in{n}: &[{}]", ty.name())));
    let outputs = program.outputs.iter().enumerate();
    parameters.extend(outputs.map(|(n, output)| format!("mut o{n}: {}", output_type(output))));
    let shared = program.shared.iter().enumerate();
    parameters.extend(shared.map(|(n, s)| format!("a{n}: BlockUninit<{}, {}>", s.ty.name(), s.len)));
    let scratch = scratch(program).into_iter().map(Ty::name);
    parameters.extend(scratch.map(|ty| format!("mut scratch_{ty}: BlockUninit<{ty}, 32>")));
    parameters
}

fn output_type(output: &Output) -> String {
    let ty = output.ty.name();
    match &output.kind {
        OutputKind::PerThread { .. } => format!("PerThread<{ty}>"),
        OutputKind::Chunk { elements, .. } => format!("PerThreadChunk<{ty}, {elements}>"),
        OutputKind::Column { rows, .. } => format!("PerThreadColumn<{ty}, {rows}>"),
        OutputKind::PerBlock { .. } => format!("PerBlock<{ty}>"),
        OutputKind::Atomic { .. } => format!("Atomic<{ty}>"),
    }
}

struct Emitter<'a> {
    program: &'a Program,
}

impl Emitter<'_> {
    fn index_level(&self) -> String {
        let mut text = String::new();
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
            let (stmts, value) = self.body(body);
            let (guard, at) = (self.cond(guard), self.expr(at));
            let method = self.atomic_method(*output);
            writeln!(text, "{{ {stmts} let value = {value}; if {guard} {{ o{output}.{method}(&i, ({at}) as usize % o{output}.len(), value); }} }}")
                .expect("a string takes all");
        }
        text + &self.outputs()
    }

    fn atomic_method(&self, output: usize) -> &'static str {
        match self.program.outputs[output].kind {
            OutputKind::Atomic { operator } => operator.method(),
            _ => unreachable!("of atomics only"),
        }
    }

    /// The writes at a thread's end, where `i` is its index.
    fn outputs(&self) -> String {
        let mut text = String::new();
        for (n, output) in self.program.outputs.iter().enumerate() {
            let canonical = |value: &str| canonical(output.ty, value);
            text += &match &output.kind {
                OutputKind::PerThread { guard, body } => {
                    let ((stmts, value), guard) = (self.body(body), self.cond(guard));
                    let value = canonical(&value);
                    format!(
                        "if let Some(own) = o{n}.get(i) {{ {stmts} let value = {value}; if {guard} {{ o{n}.set(i, value); }} }}\n"
                    )
                }
                OutputKind::Chunk { body, .. } => {
                    let (stmts, value) = self.body(body);
                    let value = canonical(&value);
                    format!("o{n}.set(i, core::array::from_fn(|at| {{ {stmts} {value} }}));\n")
                }
                OutputKind::Column { rows, body } => {
                    let (stmts, value) = self.body(body);
                    let value = canonical(&value);
                    format!("for at in 0..{rows}usize {{ {stmts} o{n}.set(i, at, {value}); }}\n")
                }
                OutputKind::PerBlock { .. } | OutputKind::Atomic { .. } => String::new(),
            };
        }
        text
    }

    fn block_level(&self) -> String {
        let mut text = "let b = block.position() as u32;\n".to_owned();
        for (n, (ty, value)) in self.program.uniforms.iter().enumerate() {
            text += &format!("let mut u{n}: {} = {};\n", ty.name(), self.expr(value));
        }
        for (n, (_, body)) in self.program.privates.iter().enumerate() {
            text += &format!("let mut p{n} = block.map(|t| {});\n", self.braced(body));
        }
        for (n, shared) in self.program.shared.iter().enumerate() {
            text += &format!(
                "let mut a{n} = a{n}.init(&mut block, |t, at| {});\n",
                self.braced(&shared.init)
            );
        }
        for step in &self.program.steps {
            text += &self.step(step);
        }
        let outputs = self.outputs();
        if !outputs.is_empty() {
            let (views, opened) = self.views(&outputs);
            text += &format!(
                "{{ {views} block.threads(|t| {{ {opened} if let Some(i) = t.index_in_launch() {{\n{outputs}}} }}); }}\n"
            );
        }
        for (n, output) in self.program.outputs.iter().enumerate() {
            if let OutputKind::PerBlock { value } = &output.kind {
                let value = canonical(output.ty, &self.expr(value));
                text += &format!("let last = {value}; o{n}.set(&block, last);\n");
            }
        }
        text
    }

    /// The views of the shared arrays that `text` reads, and the code that opens them in a closure.
    fn views(&self, text: &str) -> (String, String) {
        let used = (0..self.program.shared.len()).filter(|n| text.contains(&format!(" v{n}[")));
        let used: Vec<usize> = used.collect();
        let views = used.iter().map(|n| format!("let v{n} = a{n}.view(); ")).collect();
        let opened = used
            .iter()
            .map(|n| format!("let v{n} = v{n}.slice(t); "))
            .collect();
        (views, opened)
    }

    fn steps(&self, steps: &[Step]) -> String {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: &Step) -> String {
        match step {
            Step::Map { dst, shared, body } => {
                let body = self.braced(body);
                let (views, opened) = self.views(&body);
                let method = if *shared { "map_shared" } else { "map" };
                format!("{{ {views} p{dst} = block.{method}(|t| {{ {opened} {body} }}); }}\n")
            }
            Step::Update { dst, shared, body } => {
                let body = self.braced(body);
                let (views, opened) = self.views(&body);
                let method = if *shared { "threads_with" } else { "update" };
                format!(
                    "{{ {views} block.{method}(&mut p{dst}, |t, slot| {{ {opened} let own = *slot; *slot = {body}; }}); }}\n"
                )
            }
            Step::Write { array, body } => {
                let body = self.braced(body);
                let (views, opened) = self.views(&body);
                format!("{{ {views} a{array}.write(&mut block, |t, at| {{ {opened} {body} }}); }}\n")
            }
            Step::Each { array, body } => {
                let body = self.braced(body);
                let (views, opened) = self.views(&body);
                format!(
                    "{{ {views} let each = a{array}.each_mut(); block.threads(|t| {{ {opened} if let Some(own) = each.get(t) {{ let value = {body}; each.set(t, value); }} }}); }}\n"
                )
            }
            Step::Split { array, mid, body } => {
                let body = self.braced(body);
                let (views, opened) = self.views(&body);
                let views = views.replace(&format!("let v{array} = a{array}.view(); "), "");
                format!(
                    "{{ {views} let (low, v{array}) = a{array}.split_at_mut({mid}); block.threads(|t| {{ {opened} if let Some(own) = low.get(t) {{ let value = {body}; low.set(t, value); }} }}); }}\n"
                )
            }
            Step::SharedAtomic {
                array,
                operator,
                guard,
                at,
                body,
            } => {
                let (stmts, value) = self.body(body);
                let (guard, at, method) = (self.cond(guard), self.expr(at), operator.method());
                let len = self.program.shared[*array].len;
                let inner = format!(
                    "{stmts} let value = {value}; if {guard} {{ each.{method}(t, ({at}) as usize % {len}, value); }}"
                );
                let (views, opened) = self.views(&inner);
                format!(
                    "{{ {views} let each = a{array}.atomic(); block.threads(|t| {{ {opened} {inner} }}); }}\n"
                )
            }
            Step::Atomic {
                output,
                guard,
                at,
                body,
            } => {
                let (stmts, value) = self.body(body);
                let (guard, at, method) = (self.cond(guard), self.expr(at), self.atomic_method(*output));
                let inner = format!(
                    "{stmts} let value = {value}; if {guard} {{ o{output}.{method}(t, ({at}) as usize % o{output}.len(), value); }}"
                );
                let (views, opened) = self.views(&inner);
                format!("{{ {views} block.threads(|t| {{ {opened} {inner} }}); }}\n")
            }
            Step::Shuffle { kind, dst, src } => {
                let (method, by) = match kind {
                    Shuffle::Down(lane) => ("shuffle_down", lane.to_string()),
                    Shuffle::Up(lane) => ("shuffle_up", lane.to_string()),
                    Shuffle::Xor(lane) => ("shuffle_xor", lane.to_string()),
                    Shuffle::From(lane) => ("shuffle_from", lane.to_string()),
                    Shuffle::Any(choice) => ("shuffle", format!("&p{choice}")),
                };
                format!("p{dst} = block.{method}(&p{src}, {by});\n")
            }
            Step::WarpVote { kind, dst, cond } => {
                let cond = self.cond(cond);
                match kind {
                    Vote::Any => format!(
                        "{{ let votes = block.warp_any(|t| {cond}); p{dst} = block.map(|t| votes.get(t) as u32); }}\n"
                    ),
                    Vote::All => format!(
                        "{{ let votes = block.warp_all(|t| {cond}); p{dst} = block.map(|t| votes.get(t) as u32); }}\n"
                    ),
                    Vote::Which => format!("p{dst} = block.ballot(|t| {cond});\n"),
                }
            }
            Step::WarpMatch { dst, src } => format!("p{dst} = block.warp_match(&p{src});\n"),
            Step::WarpReduce { operator, dst, src } => {
                format!("p{dst} = block.warp_reduce::<{}, _>(&p{src});\n", operator.name())
            }
            Step::WarpScan {
                operator,
                inclusive,
                dst,
                src,
            } => {
                let which = if *inclusive { "inclusive" } else { "exclusive" };
                format!(
                    "p{dst} = block.warp_{which}_scan::<{}, _>(&p{src});\n",
                    operator.name()
                )
            }
            Step::Reduce { operator, total, src } => {
                let ty = self.program.privates[*src].0.name();
                format!(
                    "u{total} = block.reduce::<{}, _, 32>(&mut scratch_{ty}, &p{src});\n",
                    operator.name()
                )
            }
            Step::Scan {
                operator,
                inclusive,
                dst,
                total,
                src,
            } => {
                let ty = self.program.privates[*src].0.name();
                let which = if *inclusive { "inclusive" } else { "exclusive" };
                format!(
                    "{{ let (values, total) = block.{which}_scan::<{}, _, 32>(&mut scratch_{ty}, &p{src}); p{dst} = values; u{total} = total; }}\n",
                    operator.name()
                )
            }
            Step::BlockVote { kind, total, cond } => {
                let cond = self.cond(cond);
                let (views, opened) = self.views(&cond);
                let method = match kind {
                    Vote::Any => "any",
                    Vote::All => "all",
                    Vote::Which => "count",
                };
                format!("{{ {views} u{total} = block.{method}(|t| {{ {opened} {cond} }}) as u32; }}\n")
            }
            Step::Broadcast { total, array, at } => format!("u{total} = block.broadcast(&a{array}, {at});\n"),
            Step::Set { uniform, value } => format!("u{uniform} = {};\n", self.expr(value)),
            Step::If {
                cond,
                then,
                otherwise,
            } => {
                format!(
                    "if {} {{\n{}}} else {{\n{}}}\n",
                    self.cond(cond),
                    self.steps(then),
                    self.steps(otherwise)
                )
            }
            Step::For {
                variable,
                count,
                below,
                body,
            } => {
                format!(
                    "for u{variable} in 0..({}) % {below} {{\n{}}}\n",
                    self.expr(count),
                    self.steps(body)
                )
            }
        }
    }

    /// A body's statements and its value.
    fn body(&self, body: &Body) -> (String, String) {
        (self.stmts(&body.stmts), self.expr(&body.result))
    }

    fn braced(&self, body: &Body) -> String {
        let (stmts, value) = self.body(body);
        format!("{{ {stmts} {value} }}")
    }

    fn stmts(&self, stmts: &[Stmt]) -> String {
        let mut text = String::new();
        for stmt in stmts {
            text += &match stmt {
                Stmt::Let(n, value) => format!("let mut x{n}: {} = {}; ", value.ty.name(), self.expr(value)),
                Stmt::Assign(n, value) => format!("x{n} = {}; ", self.expr(value)),
                Stmt::If(cond, then, otherwise) => {
                    format!(
                        "if {} {{ {} }} else {{ {} }} ",
                        self.cond(cond),
                        self.stmts(then),
                        self.stmts(otherwise)
                    )
                }
                Stmt::For {
                    variable,
                    count,
                    below,
                    body,
                } => {
                    format!(
                        "for x{variable} in 0..({}) % {below} {{ {} }} ",
                        self.expr(count),
                        self.stmts(body)
                    )
                }
            };
        }
        text
    }

    fn cond(&self, cond: &Cond) -> String {
        match cond {
            Cond::Compare(comparison, a, b) => {
                let operator = match comparison {
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Equal => "==",
                    Comparison::NotEqual => "!=",
                };
                format!("({} {operator} {})", self.expr(a), self.expr(b))
            }
            Cond::And(a, b) => format!("({} && {})", self.cond(a), self.cond(b)),
            Cond::Or(a, b) => format!("({} || {})", self.cond(a), self.cond(b)),
            Cond::Not(a) => format!("(!{})", self.cond(a)),
        }
    }

    fn expr(&self, expr: &Expr) -> String {
        let ty = expr.ty.name();
        match &expr.node {
            Node::Const(bits) => constant(expr.ty, *bits),
            Node::Local(n) => format!("x{n}"),
            Node::Uniform(n) => format!("u{n}"),
            Node::Scalar(n) => format!("s{n}"),
            Node::Private(n) => format!("p{n}.get(t)"),
            Node::Own => "own".to_owned(),
            Node::Place(place) => self.place(*place).to_owned(),
            Node::Input(n, at) => format!("in{n}[({}) as usize % in{n}.len()]", self.expr(at)),
            // The space before `v` lets `views` find it.
            Node::View(n, at) => format!(" v{n}[({}) as usize % v{n}.len()]", self.expr(at)),
            Node::Unary(operator, a) => {
                let a = self.expr(a);
                match operator {
                    Unary::Not => format!("(!{a})"),
                    Unary::Negate if expr.ty.is_float() => format!("(-{a})"),
                    Unary::Negate => format!("({a}).wrapping_neg()"),
                    Unary::CountOnes => format!("(({a}).count_ones() as {ty})"),
                    Unary::LeadingZeros => format!("(({a}).leading_zeros() as {ty})"),
                    Unary::TrailingZeros => format!("(({a}).trailing_zeros() as {ty})"),
                    Unary::SwapBytes => format!("({a}).swap_bytes()"),
                    Unary::ReverseBits => format!("({a}).reverse_bits()"),
                    Unary::Abs => format!("({a}).abs()"),
                    Unary::Sqrt => format!("Float::sqrt(({a}).abs())"),
                    Unary::Floor => format!("Float::floor({a})"),
                    Unary::Ceil => format!("Float::ceil({a})"),
                    Unary::Trunc => format!("Float::trunc({a})"),
                }
            }
            Node::Binary(operator, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                if expr.ty.is_float() {
                    return match operator {
                        Binary::Add => format!("({a} + {b})"),
                        Binary::Sub => format!("({a} - {b})"),
                        Binary::Mul => format!("({a} * {b})"),
                        Binary::Div => format!("({a} / {b})"),
                        Binary::Rem => format!("accurate::rem({a}, {b})"),
                        Binary::RemEuclid => format!("accurate::rem_euclid({a}, {b})"),
                        Binary::Min => format!("min_{ty}({a}, {b})"),
                        Binary::Max => format!("max_{ty}({a}, {b})"),
                        Binary::MulAdd => format!("({{ let a: {ty} = {a}; Float::mul_add(a, {b}, a) }})"),
                        _ => unreachable!("of integers only"),
                    };
                }
                match operator {
                    Binary::Add => format!("({a}).wrapping_add({b})"),
                    Binary::Sub => format!("({a}).wrapping_sub({b})"),
                    Binary::Mul => format!("({a}).wrapping_mul({b})"),
                    Binary::Div => format!("div_{ty}({a}, {b})"),
                    Binary::Rem => format!("rem_{ty}({a}, {b})"),
                    Binary::RemEuclid => format!("euclid_{ty}({a}, {b})"),
                    Binary::And => format!("({a} & {b})"),
                    Binary::Or => format!("({a} | {b})"),
                    Binary::Xor => format!("({a} ^ {b})"),
                    Binary::Shl => format!("({a}).wrapping_shl(({b}) as u32)"),
                    Binary::Shr => format!("({a}).wrapping_shr(({b}) as u32)"),
                    Binary::Rotate => format!("({a}).rotate_left(({b}) as u32 & 63)"),
                    Binary::Min => format!("Ord::min({a}, {b})"),
                    Binary::Max => format!("Ord::max({a}, {b})"),
                    Binary::SaturatingAdd => format!("({a}).saturating_add({b})"),
                    Binary::SaturatingSub => format!("({a}).saturating_sub({b})"),
                    Binary::MulAdd => {
                        format!("({{ let a: {ty} = {a}; a.wrapping_mul({b}).wrapping_add(a) }})")
                    }
                }
            }
            Node::Select(cond, a, b) => format!(
                "(if {} {{ {} }} else {{ {} }})",
                self.cond(cond),
                self.expr(a),
                self.expr(b)
            ),
            Node::Cast(a) => format!("(({}) as {ty})", self.expr(a)),
            Node::Narrow(through, a) => format!("((({}) as {}) as {ty})", self.expr(a), through.name()),
            Node::Transmute(a) if a.ty.is_float() => format!("{}.to_bits()", canonical(a.ty, &self.expr(a))),
            Node::Transmute(a) => format!("{ty}::from_bits({})", self.expr(a)),
        }
    }

    fn place(&self, place: Place) -> &'static str {
        match (place, self.program.position) {
            (Place::Block, _) => "b",
            (Place::At, _) => "(at as u32)",
            (Place::Index | Place::X, Position::Index1) => "(i.get() as u32)",
            (Place::Index, Position::Index2) => "((i.y() * i.width() + i.x()) as u32)",
            (Place::X, Position::Index2 | Position::Index3) => "(i.x() as u32)",
            (Place::Y, Position::Index2 | Position::Index3) => "(i.y() as u32)",
            (Place::Index, _) => "(t.index() as u32)",
            (Place::Lane, _) => "(t.lane() as u32)",
            (Place::Warp, _) => "(t.warp() as u32)",
            (Place::X, _) => "(t.x() as u32)",
            (Place::Y, _) => "(t.y() as u32)",
        }
    }
}

fn canonical(ty: Ty, value: &str) -> String {
    if ty.is_float() {
        format!("canonical_{}({value})", ty.name())
    } else {
        value.to_owned()
    }
}

fn constant(ty: Ty, bits: Bits) -> String {
    let name = ty.name();
    match ty {
        Ty::U32 | Ty::U64 => format!("{bits:#x}{name}"),
        Ty::I32 | Ty::I64 => format!("({bits:#x}{} as {name})", ty.bits().name()),
        Ty::F32 | Ty::F64 => format!("{name}::from_bits({bits:#x})"),
    }
}
