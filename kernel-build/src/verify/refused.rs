//! Texts that no safe Rust is known to compile to, but that ptxas takes: PTX that was changed by
//! hand. Each was accepted once, though threads diverged, or an input was written. Each has a twin
//! that is accepted.

use super::parameters::layout_for_tests;
use super::verify;

/// A parameter: its declaration, and its word in the table.
pub(super) type Parameter = (&'static str, u64);
pub(super) const POINTER: u64 = 8 | 8 << 32;
pub(super) const INPUT: Parameter = (".param .u64 input", POINTER | 1 << 48);
pub(super) const OUTPUT: Parameter = (".param .u64 output", POINTER | 2 << 48);
pub(super) const OTHER: Parameter = (".param .u64 other", POINTER | 2 << 48);
/// The output of what the kernel returns.
pub(super) const FILLED: Parameter = (".param .u64 filled", POINTER | 3 << 48);
pub(super) const NUMBER: Parameter = (".param .u64 number", POINTER);

/// The last parameter of each entry.
const EXTENT: Parameter = (".param .align 8 .b8 extent[24]", 24 | 8 << 32);

/// Adds a length behind each address, and the extent, as `#[kernel]` does.
fn with_lengths(parameters: &[Parameter]) -> (Vec<String>, Vec<u64>) {
    let mut all = Vec::new();
    for (at, (declared, word)) in parameters.iter().enumerate() {
        all.push(((*declared).to_owned(), *word));
        if *word != POINTER {
            all.push((format!(".param .u64 length{at}"), POINTER));
        }
    }
    all.push((EXTENT.0.to_owned(), EXTENT.1));
    all.into_iter().unzip()
}

/// A branch on `%r1` around a barrier.
pub(super) const BRANCH: &str = "setp.eq.s32 %p1, %r1, 0;\n@%p1 bar.sync 0;";
pub(super) const OWN: &str = "mov.u32 %r5, %tid.x;\n";

pub(super) struct Text {
    functions: &'static str,
    parameters: Vec<Parameter>,
    body: String,
}

impl Text {
    pub(super) fn of(body: impl Into<String>) -> Self {
        Self {
            functions: "",
            parameters: vec![NUMBER],
            body: body.into(),
        }
    }

    pub(super) fn with(self, functions: &'static str) -> Self {
        Self { functions, ..self }
    }

    pub(super) fn taking(self, parameters: &[Parameter]) -> Self {
        Self {
            parameters: parameters.to_vec(),
            ..self
        }
    }

    /// The whole text.
    pub(super) fn ptx(&self) -> String {
        let (declared, words) = with_lengths(&self.parameters);
        let layout = layout_for_tests("k", &words);
        let words: Vec<String> = words.iter().map(u64::to_string).collect();
        format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n\
             .global .align 4 .b8 table[4] = {{1}};\n\
             .visible .global .align 8 .u64 __cuda_rt_parameters_k[{}] = {{{}}};\n{layout}{}\n\
             .visible .entry k({})\n{{\n.local .align 8 .b8 depot[8];\n\
             .reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n{}\nret;\n}}\n",
            words.len(),
            words.join(", "),
            self.functions,
            declared.join(", "),
            self.body,
        )
    }

    /// The words of the refusal, if there is one.
    fn refusal(&self) -> Option<String> {
        verify(&self.ptx()).err().map(|refusal| refusal.to_string())
    }

    #[track_caller]
    pub(super) fn refused(&self, words: &str) {
        match self.refusal() {
            Some(refusal) => assert!(refusal.contains(words), "{}\n{refusal}", self.body),
            None => panic!("accepted:\n{}\n{}", self.functions, self.body),
        }
    }

    #[track_caller]
    pub(super) fn accepted(&self) {
        if let Some(refusal) = self.refusal() {
            panic!("{}\n{}\n{refusal}", self.functions, self.body);
        }
    }
}

#[test]
fn a_register_of_several_elements_is_refused() {
    Text::of(format!(
        ".reg .v2 .b32 pair;\nmov.b32 pair.x, 1;\nmov.b32 pair.y, 1;\n{OWN}mov.b32 pair.x, %r5;\nmov.b32 %r1, pair.x;\n{BRANCH}"
    ))
    .refused("registers of `.v2`");
}

#[test]
fn an_operand_that_is_no_declared_register_is_refused() {
    for (unknown, words) in [
        ("mov.b32 %r1, word;", "neither a variable nor a function"),
        ("mov.b32 word, %r1;", "something else than a declared register"),
        ("mov.b32 %word, %r1;", "something else than a declared register"),
        ("mov.b32 %r1, %word;", "no register"),
        ("mov.b32 %r1, %tid.w;", "no register"),
        ("mov.b32 %r1, %r01;", "no register"),
        ("mov.b32 %r1, 0word;", "not an operand"),
        ("add.s32 %r1, %r1, %tid.x;", "only `mov` may read"),
        ("mov.b64 %rd1, {%tid.x, %r2};", "only `mov` may read"),
        ("st.local.u32 [depot], %tid.x;", "only `mov` may read"),
        ("bar.red.or.pred %p2, 0, %tid.x;", "only `mov` may read"),
        ("call.uni takes, (%tid.x);", "only `mov` may read"),
        (
            "add.s32 %r1, %r1, depot;",
            "something else than a declared register",
        ),
        ("mov.b32 %r1, %r2, %r3;", "form"),
        (
            "add.s32 %r1, %r2, [depot];",
            "something else than a declared register",
        ),
        ("ld.local.u32 %r1, [table];", "another state space"),
        ("ld.u32 %r1, [depot];", "another state space"),
        ("ld.global.word.u32 %r1, [table];", "a part in its name"),
        ("@%r1 bar.sync 0;", "not a predicate"),
        ("ret 1;", "form"),
        (".reg .b32 %r<30>;", "declared twice"),
        ("mov.b32 %r1, -%r2;", "`-` here"),
    ] {
        let takes = ".func takes(.param .b32 a) { ret; }";
        Text::of(unknown).with(takes).refused(words);
    }
    Text::of("mov.u32 %r1, %tid;\nmov.b64 %rd1, {%r1, 0};\nmov.b64 {_, %r2}, %rd1;\nmov.u64 %rd2, depot;")
        .accepted();
}

/// The thread continues anywhere if the index lies outside the table.
#[test]
fn a_jump_table_is_refused() {
    let table = "T: .branchtargets A, B;";
    for index in [
        "and.b32 %r1, %r5, 1;\n",
        "mov.u32 %r1, %ctaid.x;\n",
        "mov.b32 %r1, 1;\n",
    ] {
        Text::of(format!("{OWN}{index}{table}\nbrx.idx %r1, T;\nA: ret;\nB:")).refused("is a jump table");
        Text::of(format!("{OWN}{index}brx.idx.uni %r1, T;\nA: ret;\nB:")).refused("is a jump table");
    }
    let chosen = "setp.eq.s32 %p1, %r5, 0;\n@%p1 bra B;\nbra A;\nA: ret;\nB:";
    Text::of(format!("{OWN}{chosen}")).accepted();
}

#[test]
fn a_function_with_the_name_of_cudas_is_refused() {
    let ends = ".func __assertfail() { ret; }";
    Text::of(format!(
        "{OWN}setp.eq.s32 %p1, %r5, 0;\n@%p1 bra A;\nbar.sync 0;\nbra E;\nA: call.uni __assertfail, ();\nbar.sync 0;\nE:"
    ))
    .with(ends)
    .refused("a function of CUDA");
    let prints = ".func vprintf() { bar.sync 0; ret; }";
    Text::of(format!("{OWN}setp.eq.s32 %p1, %r5, 0;\n@%p1 call vprintf, ();"))
        .with(prints)
        .refused("a function of CUDA");
    Text::of("call.uni vprintf, ();")
        .with(".extern .func vprintf();")
        .accepted();
    Text::of("")
        .with(".func table() { ret; }")
        .refused("declared twice");
    Text::of("")
        .with(".func ends() .noreturn { ret; }")
        .refused("`.noreturn`");
    Text::of("")
        .with(".func ends() .unknown { ret; }")
        .refused("`.unknown`");
}

const POKES: &str = ".func poke(.param .b64 a) { .reg .b32 %q; .reg .b64 %w; ld.param.b64 %w, [a]; mov.u32 %q, %tid.x; st.b32 [%w], %q; ret; }";
const PEEKS: &str = ".func (.param .b32 r) peek(.param .b64 a) { .reg .b32 %q; .reg .b64 %w; ld.param.b64 %w, [a]; ld.b32 %q, [%w]; st.param.b32 [r], %q; ret; }";

fn call(function: &str, argument: &str) -> String {
    format!("{{ .param .b64 a; st.param.b64 [a], {argument}; call.uni {function}, (a); }}\n")
}

#[test]
fn a_write_to_an_input_is_refused() {
    let address = "ld.param.u64 %rd1, [input];\n";
    for write in [
        "st.global.u32 [%rd1], %r5;",
        "add.s64 %rd2, %rd1, 4;\nst.u32 [%rd2], %r5;",
        "atom.global.add.u32 %r6, [%rd1], 1;",
        "red.global.add.u32 [%rd1], 1;",
        &call("poke", "%rd1"),
        "st.local.b64 [depot], %rd1;\nld.local.b64 %rd2, [depot];\nst.u32 [%rd2], %r5;",
    ] {
        Text::of(format!("{OWN}{address}{write}"))
            .with(POKES)
            .taking(&[INPUT])
            .refused("may write to an input");
        Text::of(format!("{OWN}{address}{write}").replace("input", "output"))
            .with(POKES)
            .taking(&[OUTPUT])
            .accepted();
    }
    // A function that reads an input may write elsewhere.
    let copies = ".func copy(.param .b64 from, .param .b64 to) { .reg .b32 %q; .reg .b64 %w<3>; \
        ld.param.b64 %w1, [from]; ld.param.b64 %w2, [to]; ld.b32 %q, [%w1]; st.b32 [%w2], %q; ret; }";
    let copy = |from: &str, to: &str| {
        let body = format!(
            "ld.param.u64 %rd1, [{from}];\nld.param.u64 %rd2, [{to}];\n{{ .param .b64 a; .param .b64 b; \
             st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; call.uni copy, (a, b); }}"
        );
        Text::of(body).with(copies).taking(&[INPUT, OUTPUT])
    };
    copy("input", "output").accepted();
    copy("output", "input").refused("may write to an input");
}

/// A function that was given the address of its caller's local memory uses it as its own.
#[test]
fn local_memory_of_the_caller_differs_in_its_functions() {
    let address = "mov.u64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\n";
    let peek = format!(
        "{{ .param .b64 a; .param .b32 b; st.param.b64 [a], %rd2; call.uni (b), peek, (a); ld.param.b32 %r1, [b]; }}\n{BRANCH}"
    );
    let local = ".func (.param .b32 r) peek(.param .b64 a) { .reg .b32 %q; .reg .b64 w<3>; ld.param.b64 w1, [a]; \
        cvta.to.local.u64 w2, w1; ld.local.b32 %q, [w2]; st.param.b32 [r], %q; ret; }";
    let body = format!("{address}{OWN}st.local.u32 [%rd1], %r5;\n{peek}");
    for function in [PEEKS, local] {
        Text::of(&body).with(function).refused("H32");
    }
    let local = ".func poke(.param .b64 a) { .reg .b32 %q; .reg .b64 w<3>; ld.param.b64 w1, [a]; \
        cvta.to.local.u64 w2, w1; mov.u32 %q, %tid.x; st.local.b32 [w2], %q; ret; }";
    let read = format!("ld.local.u32 %r1, [%rd1];\n{BRANCH}");
    let body = format!("{address}st.local.u32 [%rd1], 0;\n{}", call("poke", "%rd2"));
    for function in [POKES, local] {
        Text::of(format!("{body}{read}")).with(function).refused("H32");
        Text::of(&body).with(function).accepted();
    }
    // The function finds the address in shared memory.
    let fetches = ".func poke() { .reg .b32 %q; .reg .b64 %w; ld.shared.b64 %w, [dynamic]; mov.u32 %q, %tid.x; st.b32 [%w], %q; ret; }";
    Text::of(format!(
        "{address}st.local.u32 [%rd1], 0;\nst.shared.u64 [dynamic], %rd2;\ncall.uni poke, ();\n{read}"
    ))
    .with(fetches)
    .refused("does not know the memory");
}

#[test]
fn the_address_of_a_parameter_is_refused_where_it_could_be_written() {
    let takes = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], 0; call.uni (b), f, (a); ld.param.b32 %r1, [b]; }\n";
    for (function, words) in [
        (
            "mov.b64 %w1, a; cvta.local.u64 %w2, %w1; st.local.b32 [%w1], %q1;",
            "takes the address",
        ),
        ("mov.b64 %w1, r; st.param.b32 [%w1], %q1;", "takes the address"),
        ("mov.b64 %w1, 0; st.param.b32 [%w1], %q1;", "by another word"),
        ("mov.b64 %w1, 0; ld.param.b32 %q1, [%w1];", "by another word"),
    ] {
        let function = format!(
            ".func (.param .b32 r) f(.param .b32 a) {{ .reg .b32 %q<3>; .reg .b64 %w<4>; mov.u32 %q1, %tid.x; {function} ret; }}"
        );
        Text::of(format!("{takes}{BRANCH}"))
            .with(function.leak())
            .refused(words);
    }
    let address = "mov.u64 %rd1, number;\ncvta.param.u64 %rd2, %rd1;\n";
    for (write, words) in [
        ("st.u32 [%rd2], %r5;", "the entry's parameters"),
        ("st.local.u32 [%rd1], %r5;", "the entry's parameters"),
        ("st.global.u32 [%rd2], %r5;", "does not know the memory"),
        ("st.param.u32 [number], %r5;", "a parameter of an entry"),
        ("st.param.u32 [%rd1], %r5;", "by another word"),
        ("mov.u64 %rd3, depot;\nld.param.u32 %r1, [%rd3];", "does not know"),
    ] {
        Text::of(format!("{address}{OWN}{write}")).refused(words);
    }
    Text::of(format!("{address}ld.param.u32 %r1, [%rd1+4];\n{BRANCH}")).accepted();
}

/// A number is chosen instead of an address.
#[test]
fn a_choice_between_an_address_and_a_number_is_unknown() {
    let output = format!("{OWN}ld.param.u64 %rd1, [output];\nsetp.lt.u32 %p3, %r5, 5000;\n");
    let shuffled = "mov.b64 {%r3, %r4}, %rd2;\nshfl.sync.idx.b32 %r3, %r3, 0, 31, -1;\n\
        shfl.sync.idx.b32 %r4, %r4, 0, 31, -1;\nmov.b64 %rd3, {%r3, %r4};\n";
    let by_shared = "st.shared.u64 [dynamic], %rd2;\nld.shared.u64 %rd3, [dynamic];\n";
    let numbers = [
        "ld.param.u64 %rd3, [number];\n".to_owned(),
        "ld.param.v2.u32 {%r3, %r4}, [number];\nmov.b64 %rd3, {%r3, %r4};\n".to_owned(),
        "mov.u64 %rd3, %clock64;\n".to_owned(),
        "ld.global.u64 %rd3, [%rd1];\n".to_owned(),
        "atom.global.add.u64 %rd3, [%rd1], 1;\n".to_owned(),
        "ld.param.u64 %rd2, [other];\nsub.u64 %rd3, %rd2, %rd1;\n".to_owned(),
        "setp.ne.u64 %p4, %rd1, 0;\nselp.u64 %rd3, 4096, 0, %p4;\n".to_owned(),
        format!("ld.param.u64 %rd2, [other];\n{shuffled}"),
        format!("mov.u64 %rd2, table;\n{shuffled}"),
        format!("mov.u64 %rd2, table;\ncvta.global.u64 %rd2, %rd2;\n{by_shared}"),
        format!("mov.u64 %rd2, depot;\ncvta.local.u64 %rd2, %rd2;\n{shuffled}"),
        format!("mov.u64 %rd2, dynamic;\ncvta.shared.u64 %rd2, %rd2;\n{shuffled}"),
    ];
    for number in &numbers {
        for choice in [
            "selp.b64 %rd5, %rd3, %rd1, %p3;",
            "mov.b64 %rd5, %rd1;\n@%p3 mov.b64 %rd5, %rd3;",
            "max.u64 %rd5, %rd3, %rd1;",
            "xor.b64 %rd5, %rd3, %rd1;",
            "mov.b64 %rd5, %rd3;",
            "mov.b64 %rd5, %rd1;\nL: add.s64 %rd6, %rd5, 4;\nmov.b64 %rd5, %rd3;\n@%p3 bra L;",
        ] {
            let text = Text::of(format!("{output}{number}{choice}\nst.u32 [%rd5], %r5;"));
            let text = text.taking(&[OUTPUT, OTHER, NUMBER]);
            match text.refusal() {
                Some(words) => assert!(
                    words.contains("does not know the memory") || words.contains("memory of the module"),
                    "{number}{choice}\n{words}"
                ),
                None => panic!("accepted: {number}{choice}"),
            }
        }
        // As a summand, the number moves the address inside its memory.
        let text = format!("{output}{number}add.s64 %rd5, %rd3, %rd1;\nst.u32 [%rd5], %r5;");
        let text = Text::of(text).taking(&[OUTPUT, OTHER, NUMBER]);
        match text.refusal() {
            Some(words) => assert!(words.contains("memory of the module"), "{number}\n{words}"),
            // What was in memory is a number, even if an address was stored there.
            None => assert!(
                !number.contains("table") || number.contains(by_shared),
                "accepted: {number}"
            ),
        }
    }
    // A constant beside an address is null, or the address of no elements.
    Text::of(format!(
        "{output}selp.b64 %rd5, 4, %rd1, %p3;\nst.u32 [%rd5], %r5;"
    ))
    .taking(&[OUTPUT])
    .accepted();
}

/// The address of one output comes back from another lane, and is written.
#[test]
fn an_output_that_is_written_by_a_shuffled_address_differs() {
    let body = "ld.param.u64 %rd1, [output];\nld.param.u64 %rd2, [other];\nmov.b64 {%r3, %r4}, %rd2;\n\
        shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;\nshfl.sync.idx.b32 %r4, %r4, 0, 31, -1;\nmov.b64 %rd3, {%r3, %r4};\n\
        sub.u64 %rd4, %rd3, %rd1;\nadd.u64 %rd5, %rd1, %rd4;\nst.global.u32 [%rd5], %r5;\n";
    let text = |address: &str| {
        let read = format!("ld.global.u32 %r1, [{address}];\n{BRANCH}");
        Text::of(format!("{OWN}{body}{read}")).taking(&[OUTPUT, OTHER])
    };
    text("%rd2").refused("H32");
    text("%rd1").refused("H32");
}

/// Nothing wrote the value, so each thread may find another one.
#[test]
fn a_parameter_of_a_call_that_nothing_wrote_differs() {
    Text::of(format!("{{ .param .b32 a; ld.param.b32 %r1, [a]; }}\n{BRANCH}"))
        .refused("nothing before it wrote");
    let call = |before: &str| {
        format!(
            "mov.u32 %r2, %ctaid.x;\nsetp.eq.s32 %p2, %r2, 0;\n{{ .param .b32 a; .param .b32 b; {before} call.uni (b), \
             f, (a); ld.param.b32 %r1, [b]; }}\n{BRANCH}"
        )
    };
    let returns = |guard: &str| {
        let text = format!(
            ".func (.param .b32 r) f(.param .b32 a) {{ .reg .b32 %q; .reg .pred %p; ld.param.b32 %q, [a]; \
             setp.eq.s32 %p, %q, 0; {guard} st.param.b32 [r], %q; ret; }}"
        );
        &*text.leak()
    };
    let written = "st.param.b32 [a], %r2;";
    Text::of(call(written)).with(returns("")).accepted();
    Text::of(call(""))
        .with(returns(""))
        .refused("nothing before it wrote");
    Text::of(call(&format!("@%p2 {written}")))
        .with(returns(""))
        .refused("nothing before it wrote");
    Text::of(call(written)).with(returns("@%p")).refused("H32");
}

/// Nothing wrote the carry flag, so each thread may find another one.
#[test]
fn a_carry_that_nothing_wrote_is_refused() {
    let writes = "add.cc.u32 %r2, -1, -1;\n";
    let reads = "addc.u32 %r1, 0, 0;\n";
    let adds = ".func adds() { .reg .b32 %q; add.cc.u32 %q, -1, -1; ret; }";
    let carries = ".func carries() { .reg .b32 %q; addc.u32 %q, 0, 0; ret; }";
    Text::of(format!("{writes}{reads}{BRANCH}")).accepted();
    Text::of(format!("{writes}addc.cc.u32 %r3, 0, 0;\n{reads}{BRANCH}")).accepted();
    for between in ["L:", "@%p1", "bar.sync 0;", "call.uni adds, ();"] {
        let before = if between.starts_with('@') { between } else { "" };
        let between = if before.is_empty() { between } else { "" };
        Text::of(format!("{before} {writes}{between}\n{reads}{BRANCH}"))
            .with(adds)
            .refused("carry flag");
    }
    Text::of(format!("{reads}{BRANCH}")).refused("carry flag");
    Text::of(format!("{writes}call.uni carries, ();"))
        .with(carries)
        .refused("carry flag");
}

/// The result may be any number, so a sum with it may be any address.
#[test]
fn a_product_of_an_address_is_no_address() {
    let text = |computed: &str| {
        Text::of(format!(
            "{OWN}ld.param.u64 %rd1, [output];\nld.param.u64 %rd2, [number];\n{computed}\n\
             add.u64 %rd4, %rd3, %rd2;\nst.global.u32 [%rd4], %r5;"
        ))
        .taking(&[OUTPUT, NUMBER])
    };
    text("add.u64 %rd3, %rd1, 4;").accepted();
    text("mov.b64 %rd3, %rd1;").accepted();
    for computed in [
        "xor.b64 %rd3, %rd1, %rd1;",
        "and.b64 %rd3, %rd1, 0;",
        "mul.lo.u64 %rd3, %rd1, 0;",
        "shr.u64 %rd3, %rd1, 63;",
        "shl.b64 %rd3, %rd1, 63;",
        "min.u64 %rd3, %rd1, 0;",
        "rem.u64 %rd3, %rd1, 1;",
        "bfe.u64 %rd3, %rd1, 0, 0;",
        "neg.s64 %rd3, %rd1;",
        "not.b64 %rd3, %rd1;",
        "cvt.u32.u64 %r3, %rd1;\ncvt.u64.u32 %rd3, %r3;",
    ] {
        text(computed).refused("does not know the memory");
    }
}

/// Beyond the end of a parameter lies the next one: its address passed for that of an output, and
/// the input that it points to was written. Half of an address is a number.
#[test]
fn an_access_stays_inside_the_parameter_that_it_names() {
    let text = |load: &str| {
        Text::of(format!("{OWN}{load}\nst.global.u32 [%rd1], %r5;")).taking(&[INPUT, OUTPUT, NUMBER])
    };
    text("ld.param.u64 %rd1, [output];").accepted();
    text("ld.param.u64 %rd1, [output+0];").accepted();
    for load in [
        "ld.param.u64 %rd1, [output+-8];",
        "ld.param.u64 %rd1, [output+8];",
        "ld.param.u64 %rd1, [output+4];",
        "ld.param.v2.u64 {%rd2, %rd1}, [output];",
    ] {
        text(load).refused("reaches beyond the parameter");
    }
    let halves = "ld.param.u32 %r1, [number];\nld.param.u32 %r2, [output+4];\nmov.b64 %rd1, {%r1, %r2};";
    text(halves).refused("not know");
}

/// The launch makes the output of what a kernel returns readable (H39).
#[test]
fn an_entry_that_writes_nothing_of_what_it_returns_is_refused() {
    let text = |body: &str| {
        Text::of(format!("{OWN}ld.param.u64 %rd1, [filled];\n{body}")).taking(&[FILLED, OUTPUT, INPUT])
    };
    let words = "writes no element of parameter 0, the output of what it returns";
    for without in [
        "",
        "ld.param.u64 %rd2, [output];\nst.global.u32 [%rd2], %r5;",
        "st.local.u64 [depot], %rd1;",
        "bra End;\nst.global.u32 [%rd1], %r5;\nEnd:",
        "setp.eq.s32 %p1, %r5, 0;\n@%p1 bra End;\ntrap;\nEnd:",
    ] {
        text(without).refused(words);
    }
    for with in [
        "st.global.u32 [%rd1], %r5;",
        "setp.eq.s32 %p1, %r5, 0;\n@%p1 bra End;\nst.global.u32 [%rd1], %r5;\nEnd:",
        // No launch ends, so nothing becomes readable.
        "trap;",
    ] {
        text(with).accepted();
    }
    let writes = ".func writes(.param .b64 to) { .reg .b64 %w; ld.param.b64 %w, [to]; st.b32 [%w], 1; ret; }";
    text("{ .param .b64 a; st.param.b64 [a], %rd1; call.uni writes, (a); }")
        .with(writes)
        .accepted();
}

/// The output of what a kernel returns may hold nothing before the launch (H39).
#[test]
fn a_read_of_the_memory_for_what_a_kernel_returns_is_refused() {
    let text = |body: &str| {
        Text::of(format!(
            "{OWN}ld.param.u64 %rd1, [filled];\nld.param.u64 %rd2, [input];\nld.param.u64 %rd3, [number];\n{body}"
        ))
        .taking(&[FILLED, INPUT, NUMBER])
    };
    let words = "may read the output of what the kernel returns";
    text("st.global.u32 [%rd1], %r5;").accepted();
    text("ld.global.u32 %r6, [%rd2];\nst.global.u32 [%rd1], %r6;").accepted();
    for read in [
        "ld.global.u32 %r6, [%rd1];",
        "ld.global.u32 %r6, [%rd1+4];",
        "ld.u32 %r6, [%rd1];",
        "ld.relaxed.gpu.global.u32 %r6, [%rd1];",
        "atom.global.add.u32 %r6, [%rd1], 1;",
        "add.u64 %rd4, %rd1, %rd3;\nld.global.u32 %r6, [%rd4];",
        // What the kernel itself wrote there is no exception: another thread may be meant.
        "st.global.u32 [%rd1], %r5;\nld.global.u32 %r6, [%rd1];",
    ] {
        text(read).refused(words);
    }
    // The read-only cache may hold what was there before the launch.
    text("ld.global.nc.u32 %r6, [%rd1];").refused(words);
    text("ld.global.nc.u32 %r6, [%rd2];\nst.global.u32 [%rd1], %r6;").accepted();
    // An address that the verifier does not know may be any.
    text("ld.global.u32 %r6, [%rd3];").refused(words);
    Text::of("ld.param.u64 %rd3, [number];\nld.global.u32 %r6, [%rd3];")
        .taking(&[OUTPUT, INPUT, NUMBER])
        .accepted();
    // A function that is given the address.
    let reads = ".func reads(.param .b64 from) { .reg .b32 %q; .reg .b64 %w; ld.param.b64 %w, [from]; ld.b32 %q, [%w]; ret; }";
    let call =
        |address: &str| format!("{{ .param .b64 a; st.param.b64 [a], {address}; call.uni reads, (a); }}");
    text(&call("%rd1")).with(reads).refused(words);
    text(&(call("%rd2") + "\nst.global.u32 [%rd1], %r5;"))
        .with(reads)
        .accepted();
}

/// ptxas takes the inner name. The entry then reads where its parameter lies, instead of the table.
#[test]
fn a_name_that_hides_one_of_the_module_is_refused() {
    let read = |name: &str| {
        let ptx = Text::of("mov.u64 %rd1, table;\nld.global.u32 %r1, [%rd1];")
            .taking(&[NUMBER])
            .ptx();
        let renamed = ptx.replace("table[4]", &format!("{name}[4]"));
        renamed.replace("%rd1, table", &format!("%rd1, {name}"))
    };
    verify(&read("mine")).unwrap();
    for hidden in ["number", "extent", "depot", "%r1", "k"] {
        let refusal = verify(&read(hidden)).unwrap_err().to_string();
        assert!(
            refusal.contains("hides one of the module") || refusal.contains("is declared twice"),
            "{hidden}: {refusal}"
        );
    }
    let label = Text::of("table:\nmov.u32 %r1, 0;").ptx();
    let refusal = verify(&label).unwrap_err().to_string();
    assert!(refusal.contains("`table` hides one of the module"), "{refusal}");
    let twice = Text::of("").with(".global .align 4 .b8 table[4];").ptx();
    let refusal = verify(&twice).unwrap_err().to_string();
    assert!(refusal.contains("`table` is declared twice"), "{refusal}");
}

/// For sm_90, ptxas then leaves out what brings the threads together before the barrier.
#[test]
fn a_guard_that_promises_not_to_differ_is_refused() {
    let jump = |guard: &str, branch: &str| {
        Text::of(format!(
            "{OWN}setp.eq.s32 %p1, %r5, 0;\n{guard}{branch} $after;\nmov.u32 %r1, 1;\n$after:\nbar.sync 0;"
        ))
    };
    jump("@%p1 ", "bra").accepted();
    jump("", "bra.uni").accepted();
    jump("@%p1 ", "bra.uni").refused("promises by `.uni`");
    Text::of("ret.other;").refused("");
}
