//! Random expressions, conditions and statements of one thread.

use super::generate::{Generator, Scope};
use super::program::{Binary, Bits, Body, Comparison, Cond, Expr, Narrow, Node, Operator, Stmt, Ty, Unary};

impl Generator {
    /// One of these variables that has the wanted type, if there is one.
    pub(super) fn find(
        &mut self,
        variables: &[(usize, Ty)],
        wanted: impl Fn(Ty) -> bool,
    ) -> Option<(usize, Ty)> {
        let fitting: Vec<_> = variables.iter().copied().filter(|(_, ty)| wanted(*ty)).collect();
        (!fitting.is_empty()).then(|| self.random.pick(&fitting))
    }

    pub(super) fn operator(&mut self, ty: Ty) -> Operator {
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

    /// Bits of a constant: limits, powers of two, special floats, or any bits.
    pub(super) fn constant(&mut self, ty: Ty) -> Bits {
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

    pub(super) fn body(&mut self, ty: Ty, depth: usize, scope: &Scope) -> Body {
        let mut scope = scope.clone();
        let count = self.random.below(3);
        let stmts = self.stmts(count, depth, &mut scope);
        Body {
            stmts,
            result: self.expr(ty, depth, &scope),
        }
    }

    fn stmts(&mut self, count: usize, depth: usize, scope: &mut Scope) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        for _ in 0..count {
            if depth > 0 && self.random.chance(1, 6) {
                stmts.extend(self.guarded(depth, scope));
            } else {
                stmts.push(self.stmt(depth, scope));
            }
        }
        stmts
    }

    /// A small number, and a branch that computes with it where it lies in a range. LLVM knows the
    /// range there, and simplifies by it: sums, shifts and products that cannot overflow, and
    /// conversions of them.
    fn guarded(&mut self, depth: usize, scope: &mut Scope) -> [Stmt; 3] {
        let of = |ty, node| Expr { ty, node };
        let (ty, to) = (self.random.pick(&Ty::INTEGERS), self.random.pick(&Ty::INTEGERS));
        let bits = 8 * ty.bytes() as u64;
        let fit = |value: u64| if bits == 32 { value & 0xffff_ffff } else { value };
        let constant = |value: u64| Box::new(of(ty, Node::Const(fit(value))));
        let most = (1_u64 << self.random.within(1, 5)) - 1;
        let any = Box::new(self.expr(ty, depth, scope));
        let small = of(ty, Node::Binary(Binary::And, any, constant(most)));
        let small = Node::Binary(Binary::Sub, Box::new(small), constant(most / 2));
        let (number, result) = (self.local(), self.local());
        let value = || of(ty, Node::Local(number));
        let least = (self.random.below(3) as u64).wrapping_neg();
        let largest = least.wrapping_add(self.random.within(1, 4) as u64);
        let in_range = Cond::And(
            Box::new(Cond::Compare(Comparison::LessOrEqual, *constant(least), value())),
            Box::new(Cond::Compare(
                Comparison::LessOrEqual,
                value(),
                *constant(largest),
            )),
        );
        let operator = self.random.pick(&[
            Binary::Shl,
            Binary::Shl,
            Binary::Mul,
            Binary::Shr,
            Binary::Add,
            Binary::Sub,
            Binary::Rotate,
        ]);
        let by = match operator {
            Binary::Mul => 1 << (bits - 1 - self.random.below(4) as u64),
            Binary::Add | Binary::Sub => self.constant(ty),
            _ => bits - 1 - self.random.below(4) as u64,
        };
        let computed = of(ty, Node::Binary(operator, Box::new(value()), constant(by)));
        let before = self.leaf(to, scope);
        scope.locals.extend([(number, ty), (result, to)]);
        [
            Stmt::Let(number, of(ty, small)),
            Stmt::Let(result, of(to, before)),
            Stmt::If(
                in_range,
                vec![Stmt::Assign(result, of(to, Node::Cast(Box::new(computed))))],
                Vec::new(),
            ),
        ]
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
                // The loop's variable is not among the locals, because the body must not assign to
                // it. The body reads its value through a variable of its own.
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

    pub(super) fn cond(&mut self, depth: usize, scope: &Scope) -> Cond {
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

    pub(super) fn expr(&mut self, ty: Ty, depth: usize, scope: &Scope) -> Expr {
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
                // These operations make long code, so they are rare.
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

    /// An index into an array, mostly the thread's position.
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
