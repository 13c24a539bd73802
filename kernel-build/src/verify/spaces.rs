//! Spaces, comments and the ends of lines decide nothing: the verdict on a text stays the same when
//! they change. Anything that stands behind a directive is read, or refused.

use super::lex::tokens;
use super::mutants::{PROVED, read, split};
use super::random_mutants::Random;
use super::{verify, verify_threads};

/// A kernel with an input, and with texts at places where a directive ends.
fn kernel(places: &[(&str, &str)]) -> String {
    let mut text = ".version 7.0{version}\n.target sm_80{target}\n.address_size 64{address_size}\n\
        .visible .global .align 8 .u64 __cuda_rt_layout_k[8] = {1, 0, 0, 0, 0, 4, 4, 3};\n\
        .visible .global .align 8 .u64 __cuda_rt_parameters_k[3] = {281509336449032, 34359738376, 34359738392};{variable}\n\
        .visible .entry k(.param .u64 input, .param .u64 length, .param .align 8 .b8 extent[24])\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;{registers}\n\
        ld.param.u64 %rd1, [input];\nmov.u32 %r1, 0;\n.loc 1 2 3{loc}\n.pragma \"nounroll\";{pragma}\n\
        setp.eq.s32 %p1, %r1, 0;\n@%p1 bar.sync 0;\nret;\n}\n.file 1 \"a.rs\"{file}\n.section .debug_str { }{section}\n"
        .to_owned();
    for (place, added) in places {
        text = text.replace(&format!("{{{place}}}"), added);
    }
    for place in MODULE.iter().chain(&BODY) {
        text = text.replace(&format!("{{{place}}}"), "");
    }
    text
}

/// Places in the module, and in the body.
const MODULE: [&str; 6] = ["version", "target", "address_size", "variable", "file", "section"];
const BODY: [&str; 3] = ["registers", "loc", "pragma"];
/// Spaces and comments.
const SPACES: [&str; 12] = [
    " ",
    "\t",
    "\n",
    "\r\n",
    " \n\n ",
    "/**/",
    "/* a\nb */",
    "/* // */",
    "/*/ a; /*/",
    "// a\n",
    "// /*\n",
    "// a \\\n",
];

#[track_caller]
fn refused(places: &[(&str, &str)], words: &str) {
    let text = kernel(places);
    match verify(&text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(refusal) => assert!(refusal.to_string().contains(words), "{refusal}\n{text}"),
    }
}

#[test]
fn a_text_behind_a_directive_is_read() {
    verify(&kernel(&[])).unwrap();
    let evil = ".visible .entry evil() { .reg .pred %p; .reg .b32 %r; mov.u32 %r, %tid.x; \
                setp.eq.s32 %p, %r, 0; @%p bar.sync 0; ret; }";
    for space in SPACES {
        let behind = |added: &str| format!("{space}{added}");
        for place in ["loc", "pragma", "registers"] {
            refused(&[(place, &behind("st.global.u32 [%rd1], 7;"))], "");
            refused(&[(place, &behind("mov.u32 %r1 %tid.x;"))], "line ");
        }
        for place in ["loc", "pragma"] {
            refused(&[(place, &behind("mov.u32 %r1, %tid.x;"))], "H32");
        }
        for place in MODULE.iter().skip(1) {
            refused(&[(place, &behind(".global .align 4 .b32 counter;"))], "`counter`");
            refused(&[(place, &behind(evil))], "evil");
        }
    }
}

#[test]
fn words_that_belong_to_no_directive_are_refused() {
    let words = [
        "zork",
        "1",
        "\"a\"",
        ", 1",
        "{ zork }",
        "}",
        "(",
        ":",
        "+ 1",
        "-",
        ".zork",
        "64",
        "3mov.u32 %r1, 1;",
        "@",
    ];
    for place in MODULE.iter().chain(&BODY) {
        for word in words {
            for space in SPACES {
                if verify(&kernel(&[(place, &format!("{space}{word}"))])).is_ok() {
                    panic!("accepted: {place} {word}");
                }
            }
        }
    }
}

#[test]
fn directives_have_a_closed_grammar() {
    for (place, accepted) in [
        ("target", ", debug"),
        ("file", ", 12, 34"),
        ("loc", ", function_name $L_1 + 4, inlined_at 1 2 3"),
        ("section", ".pragma \"nounroll\";"),
        (
            "variable",
            ".global .align 8 .u64 t[2] = {generic(__cuda_rt_parameters_k)+8, -1};",
        ),
    ] {
        verify(&kernel(&[(place, accepted)])).unwrap_or_else(|refusal| panic!("{accepted}: {refusal}"));
    }
    for (place, added) in [
        ("file", ".file 1 \"b.rs\""),
        ("file", ".file 2 \"a\\\" .global .align 4 .b32 counter; //\""),
        ("file", ".file 2 \"a\nb\""),
        ("file", ".file 2 a"),
        ("file", ".file 02 \"a\""),
        ("loc", ".loc 1 2"),
        ("loc", ", function_name L"),
        ("loc", ", inlined_at 1 2 3"),
        ("pragma", ".pragma \"zork\";"),
        ("pragma", ".pragma \"nounroll\" mov.u32 %r1, %tid.x;"),
        (
            "section",
            ".section .debug_str { .global .align 4 .b32 counter; }",
        ),
        ("section", ".section .text { }"),
        ("section", ".pragma \"nounroll\" .global .align 4 .b32 counter;"),
        ("section", ".visible"),
        ("section", ".visible .file 2 \"b\""),
        ("section", ".func \"f\"() { ret; }"),
        ("section", ".func f.g() { ret; }"),
        (
            "variable",
            ".global .attribute(.zork .b32 counter;) .align 4 .b32 t = 1;",
        ),
        (
            "variable",
            ".global .align 4 .b32 t = 1 .visible .entry evil() { ret };",
        ),
        ("variable", ".global .align 4 .b32 t[2] = {1 2};"),
        ("variable", ".global .align 4 .b32 t[010] = {1};"),
        ("registers", ".reg .b32 %x %y;"),
        ("registers", ".reg .b32 a.b;"),
        ("registers", ".reg .b32 %q<010>;"),
        ("loc", "mov.u32 %r1, 010;"),
        ("loc", "mov.u32 %r1, %r2,;"),
    ] {
        if verify(&kernel(&[(place, added)])).is_ok() {
            panic!("accepted: {place} {added}");
        }
    }
}

/// The star of `/*` does not end the comment, and a carriage return does not end a line.
#[test]
fn an_instruction_in_a_comment_is_no_instruction() {
    refused(&[("loc", " mov.u32 %r1, %tid.x; /*/ mov.u32 %r1, 0; /*/")], "H32");
    refused(&[("loc", " mov.u32 %r1, %tid.x; // \r mov.u32 %r1, 0;")], "H32");
}

/// Writes the words of a text with other spaces between them.
fn spaced(random: &mut Random, text: &str) -> String {
    let mut out = String::new();
    for token in tokens(text).unwrap() {
        out.push_str(token.text);
        for _ in 0..=random.below(2) {
            out.push_str(random.of(&SPACES).unwrap());
        }
    }
    out
}

#[test]
fn verdicts_do_not_depend_on_spaces() {
    let mut texts: Vec<(String, bool)> = Vec::new();
    for (path, ..) in PROVED {
        let step = if path.contains("library") { 8 } else { 1 };
        texts.extend(
            split(&read(path))
                .into_iter()
                .step_by(step)
                .map(|text| (text, true)),
        );
    }
    for path in ["nan_of_two_values", "statics_made_registers"] {
        let text = read(&format!("kernel-build/tests/ptx/{path}.ptx"));
        texts.extend(split(&text).into_iter().map(|text| (text, false)));
    }
    texts.push((kernel(&[]), true));
    texts.push((kernel(&[("loc", " mov.u32 %r1, %tid.x;")]), false));
    let mut refused = 0;
    for (seed, (text, is_whole)) in texts.iter().enumerate() {
        let verdict = |text: &str| {
            let verified = if *is_whole {
                verify(text)
            } else {
                verify_threads(text)
            };
            verified.map(|verified| format!("{:?}", verified.entries)).ok()
        };
        let expected = verdict(text);
        refused += usize::from(expected.is_none());
        assert!(!is_whole || expected.is_some(), "refused:\n{text}");
        let mut random = Random(seed as u64);
        for _ in 0..2 {
            let other = spaced(&mut random, text);
            assert_eq!(verdict(&other), expected, "{other}");
        }
    }
    assert!(refused >= 3, "{refused}");
}

/// A text behind a directive means the same in its line and in the next line.
#[test]
fn a_directive_does_not_end_with_its_line() {
    let added = [
        "zork",
        "ret;",
        "bar.sync 0;",
        "@%p1 bar.sync 0;",
        "mov.u32 %r1, %tid.x;",
        ".pragma \"nounroll\";",
        ".global .align 4 .b32 added;",
        ".global .align 4 .b32 added = 1;",
        ".file 9 \"b\"",
        ".loc 1 1 1",
        ".func added() { ret; }",
        "}",
    ];
    let (mut accepted, mut refused) = (0, 0);
    for text in PROVED[..1]
        .iter()
        .flat_map(|(path, ..)| split(&read(path)))
        .chain([kernel(&[])])
    {
        let lines: Vec<&str> = text.lines().collect();
        let is_directive = |line: &str| line.trim_start().starts_with('.') && !line.contains(".param");
        let mut places: Vec<usize> = (0..lines.len()).filter(|at| is_directive(lines[*at])).collect();
        // The longest texts have few directives of each kind.
        places.truncate(12);
        let mut random = Random(places.len() as u64);
        for place in places {
            let added = random.of(&added).unwrap();
            let verdict = |space: &str| {
                let line = format!("{}{space}{added}", lines[place]);
                let mut lines = lines.clone();
                lines[place] = &line;
                verify(&lines.join("\n"))
                    .map(|verified| verified.entries.len())
                    .ok()
            };
            let expected = verdict("\n");
            for space in [" ", "\t", "/* a */", "/*\n*/"] {
                assert_eq!(verdict(space), expected, "{} {added}", lines[place]);
            }
            *(if expected.is_some() {
                &mut accepted
            } else {
                &mut refused
            }) += 1;
        }
    }
    assert!(accepted >= 5 && refused >= 5, "{accepted} {refused}");
}
