//! The parser on arbitrary input: it says where it stops, and never panics.

use hazard_programs::{Program, ProgramError};
use proptest::prelude::*;

fn error(statement: &str) -> ProgramError {
    Program::parse([statement]).expect_err("not of the grammar")
}

#[test]
fn errors_of_the_parser_name_the_column_and_the_fault() {
    for (text, column, message) in [
        ("", 1, "expected a statement, found the end"),
        ("frob(x)", 1, "there is no statement `frob`"),
        ("T2: frob(x)", 5, "there is no statement `frob`"),
        ("k(R a W b@s", 10, "expected `)`, found `@`"),
        ("cpyPeer(a@x<-b)", 11, "expected a device's number, found `x`"),
        ("k(a)@s", 3, "expected `R` or `W`"),
        ("k(R a)", 7, "expected `@`, found the end"),
        ("k(R a)@9", 8, "expected a stream: `0` or a name, found `9`"),
        (
            "mem d:gpu",
            7,
            "there is no kind of memory `gpu`: the kinds are dev, pin, page and man",
        ),
        (
            "str s:async",
            7,
            "there is no kind of stream `async`: the kinds are blk and nb",
        ),
        ("str s:nb@99999999999", 10, "a device's number is too large"),
        ("cpy(a-b)", 6, "expected `<-`, found `-`"),
        ("evQuery(e)=busy", 12, "expected `ok`, found `b`"),
        ("wait(s)", 7, "expected `,`, found `)`"),
        ("host d", 6, "expected `R` or `W`"),
        ("extA R d", 9, "expected `#`, found the end"),
        ("devSync now", 9, "expected the end of the statement, found `n`"),
        ("host R d.left", 10, "a part is `lo`, `hi` or a number"),
        ("malloc(d.lo)", 9, "expected `)`, found `.`"),
        ("join(main)", 6, "expected a thread, such as `T2`, found `m`"),
        (
            "capBegin(s)",
            1,
            "`capBegin`: this grammar has no captures and graphs",
        ),
        ("é(x)", 1, "there is no statement `é`"),
        ("k(R é, ü\u{301})@s", 9, "expected `)`, found `\u{301}`"),
    ] {
        let found = error(text);
        assert_eq!(
            (found.column, found.message.as_str()),
            (column, message),
            "{text:?}"
        );
    }
    let deep = format!("host R d{}", ".0".repeat(40));
    assert_eq!(error(&deep).message, "parts are nested more than 32 deep");
}

#[test]
fn names_that_are_not_declared_are_refused_by_name() {
    let run = |statements: &[&str]| Program::parse(statements).unwrap().run().unwrap_err().to_string();
    assert_eq!(
        run(&["host R d"]),
        "statement 1, column 8: there is no memory `d`"
    );
    assert_eq!(
        run(&["mem d:dev", "k(W d)@s"]),
        "statement 2, column 8: there is no stream `s`"
    );
    assert_eq!(
        run(&["str s:nb", "destroy(s)", "stSync(s)"]),
        "statement 3, column 8: stream `s` was destroyed"
    );
    assert_eq!(
        run(&["str s:nb", "str s:blk"]),
        "statement 2, column 5: stream `s` is there already"
    );
    assert_eq!(
        run(&["mem d:dev,d:pin"]),
        "statement 1, column 11: memory `d` is there already"
    );
    assert_eq!(
        run(&["free(d)", "malloc(d)"]),
        "statement 1, column 6: there is no memory `d`"
    );
    assert_eq!(
        run(&["malloc(d)", "mem d:dev"]),
        "statement 2, column 5: memory `d` is there already"
    );
    assert_eq!(
        run(&["extWait #r"]),
        "statement 1, column 10: there is no request `#r`"
    );
    assert_eq!(
        run(&["mem a:dev", "cpyPeer(a<-b)"]),
        "statement 2, column 12: there is no memory `b`"
    );
}

#[test]
fn white_space_means_nothing() {
    let dense = [
        "mem a:dev,b:dev",
        "str s:nb@1",
        "T2:k(R a,b.0 W b.1)@s",
        "T2:cpyPeer(b@1<-a@0)",
    ];
    let wide = [
        "mem a : dev , b : dev",
        " str s :nb @ 1",
        "T2 : k( R a , b . 0 W b . 1 ) @ s ",
        "T2:\tcpyPeer ( b @1 <- a@ 0 )",
    ];
    let shape = |program: [&str; 4]| {
        format!("{:?}", Program::parse(program).unwrap()).replace(|c: char| c.is_ascii_digit(), "")
    };
    assert_eq!(shape(dense), shape(wide));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,60}") {
        if let Err(error) = Program::parse([&text]) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}");
        }
    }

    /// Random sequences of tokens get further than random text.
    #[test]
    fn any_tokens_are_run_or_refused(
        programs in prop::collection::vec(
            prop::collection::vec(
                prop::sample::select(vec![
                    "mem", "str", "k", "hostfn", "cpy", "cpyA", "cpyPeer", "set", "setA", "rec", "wait", "evSync", "evQuery",
                    "stSync", "devSync", "host", "ext", "extA", "extWait", "malloc", "mallocA", "free", "freeA", "setDev", "join",
                    "destroy", "destroyEv", "T2", "T", "R", "W", "a", "b", "s", "e", "0", "1", "18446744073709551616", "lo", "hi",
                    "dev", "pin", "page", "man", "blk", "nb", "(", ")", "(", ")", "<-", "<-", ",", ":", "@", ".", "#", "=", "=ok", " ",
                    " ", "é",
                ]),
                0..10,
            ),
            0..6,
        )
    ) {
        let statements: Vec<String> = programs.into_iter().map(|tokens| tokens.concat()).collect();
        if let Ok(program) = Program::parse(&statements) {
            let _ = program.run();
        }
    }
}
