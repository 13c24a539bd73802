//! Random programs: the checker reports an access exactly if the oracle finds that the access races
//! with an earlier one.

use std::cell::Cell;
use std::collections::BTreeSet;

use cuda_rt::checker::{Race, Site};
use hazard_programs::Program;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use crate::oracle;

/// The number of programs tried; many more if `CUDA_RT_LONG` is set.
fn cases() -> u32 {
    if std::env::var_os("CUDA_RT_LONG").is_some_and(|value| value != "0") {
        1_000_000
    } else {
        3_000
    }
}

fn name(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(names)
}

fn stream() -> impl Strategy<Value = &'static str> {
    name(&["0", "b1", "b2", "n1", "n2", "x1", "y1"])
}

fn event() -> impl Strategy<Value = &'static str> {
    name(&["e", "f"])
}

fn memory() -> impl Strategy<Value = &'static str> {
    name(&["d", "d", "c", "p", "h", "m"])
}

fn region() -> impl Strategy<Value = String> {
    let part = prop_oneof![6 => Just(""), 1 => name(&[".lo", ".hi", ".0", ".1", ".lo.0", ".lo.1"])];
    (memory(), part).prop_map(|(memory, part)| format!("{memory}{part}"))
}

fn touches() -> impl Strategy<Value = String> {
    let touch = (name(&["R", "R", "W"]), region()).prop_map(|(kind, region)| format!("{kind} {region}"));
    prop::collection::vec(touch, 1..3).prop_map(|touches| touches.join(" "))
}

fn statement() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (touches(), stream()).prop_map(|(touches, s)| format!("k({touches})@{s}")),
        1 => (touches(), stream()).prop_map(|(touches, s)| format!("hostfn({touches})@{s}")),
        3 => (region(), region(), stream()).prop_map(|(to, from, s)| format!("cpyA({to}<-{from})@{s}")),
        3 => (region(), region()).prop_map(|(to, from)| format!("cpy({to}<-{from})")),
        1 => (region(), stream()).prop_map(|(to, s)| format!("setA({to})@{s}")),
        2 => region().prop_map(|to| format!("set({to})")),
        1 => (region(), region(), stream()).prop_map(|(to, from, s)| format!("cpyPeerA({to}<-{from})@{s}")),
        1 => (region(), region(), name(&["", "@0", "@1"]), name(&["", "@0", "@1"]))
            .prop_map(|(to, from, a, b)| format!("cpyPeer({to}{a}<-{from}{b})")),
        5 => (event(), stream()).prop_map(|(e, s)| format!("rec({e})@{s}")),
        5 => (event(), stream()).prop_map(|(e, s)| format!("wait({s},{e})")),
        2 => event().prop_map(|e| format!("evSync({e})")),
        1 => event().prop_map(|e| format!("evQuery({e})=ok")),
        3 => stream().prop_map(|s| format!("stSync({s})")),
        1 => stream().prop_map(|s| format!("stQuery({s})=ok")),
        2 => Just("devSync".to_owned()),
        4 => touches().prop_map(|touches| format!("host {touches}")),
        1 => touches().prop_map(|touches| format!("ext {touches}")),
        1 => (touches(), name(&["1", "2"])).prop_map(|(touches, r)| format!("extA {touches} #{r}")),
        1 => name(&["1", "2"]).prop_map(|r| format!("extWait #{r}")),
        1 => (name(&["malloc", "hostAlloc"]), memory()).prop_map(|(call, m)| format!("{call}({m})")),
        1 => (name(&["free", "freeHost", "hostDrop", "recycle"]), region()).prop_map(|(call, m)| format!("{call}({m})")),
        1 => (memory(), stream()).prop_map(|(m, s)| format!("mallocA({m})@{s}")),
        1 => (region(), stream()).prop_map(|(m, s)| format!("freeA({m})@{s}")),
        1 => name(&["0", "1"]).prop_map(|device| format!("setDev({device})")),
        1 => name(&["T2", "T3"]).prop_map(|thread| format!("join({thread})")),
        1 => event().prop_map(|e| format!("destroyEv({e})")),
        1 => name(&["b1", "n1"]).prop_map(|s| format!("destroy({s})")),
        // The text is split in two below.
        2 => (name(&["b1", "n1"]), name(&["blk", "nb", "blk@1"])).prop_map(|(s, kind)| format!("destroy({s});str {s}:{kind}")),
    ]
}

fn program() -> impl Strategy<Value = Vec<String>> {
    let threaded = (
        prop_oneof![6 => Just(""), 1 => Just("T2: "), 1 => Just("T3: ")],
        statement(),
    );
    let statements = prop::collection::vec(threaded, 1..20);
    statements.prop_map(|random| {
        let mut statements = [
            "mem d:dev,c:dev@1,p:pin,h:page,m:man,q:pin",
            "str b1:blk,b2:blk,n1:nb,n2:nb,x1:blk@1,y1:nb@1",
            "extA R q #1",
            "extA R q #2",
        ]
        .map(str::to_owned)
        .to_vec();
        for (thread, statement) in random {
            statements.extend(
                statement
                    .split(';')
                    .map(|statement| format!("{thread}{statement}")),
            );
        }
        statements
    })
}

fn statements(race: &Race) -> (usize, usize) {
    let [first, second] = [&race.first, &race.second].map(|party| match party.operation.site {
        Site::Statement(index) => index,
        other => panic!("{other:?} in a program"),
    });
    (first, second)
}

/// Compares the verdicts; `None` if the program names something that does not exist.
pub(crate) fn compare(text: &[impl AsRef<str>]) -> Option<bool> {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let reported = program.run().ok()?;
    let racing = oracle::races(&program);
    let reported: BTreeSet<_> = reported.iter().map(statements).collect();
    let wrong: Vec<_> = reported.difference(&racing).collect();
    assert!(wrong.is_empty(), "reported, and ordered: {wrong:?}");
    let seconds = |pairs: &BTreeSet<(usize, usize)>| pairs.iter().map(|pair| pair.1).collect::<BTreeSet<_>>();
    assert_eq!(
        seconds(&reported),
        seconds(&racing),
        "accesses that race with an earlier one"
    );
    Some(!racing.is_empty())
}

#[test]
fn the_checker_agrees_with_reachability() {
    let persistence = FileFailurePersistence::WithSource("regressions");
    let config = Config {
        cases: cases(),
        failure_persistence: Some(Box::new(persistence)),
        source_file: Some(file!()),
        ..Config::default()
    };
    let (racy, ordered, refused, length) =
        (Cell::new(0u64), Cell::new(0u64), Cell::new(0u64), Cell::new(0u64));
    let result = TestRunner::new(config).run(&program(), |text| {
        let count = match compare(&text) {
            Some(true) => &racy,
            Some(false) => &ordered,
            None => &refused,
        };
        count.set(count.get() + 1);
        length.set(length.get() + text.len() as u64);
        Ok(())
    });
    let (racy, ordered, refused) = (racy.get(), ordered.get(), refused.get());
    println!(
        "{racy} racy, {ordered} ordered, {refused} that name what is not there; {} statements",
        length.get()
    );
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        racy * 10 > racy + ordered && ordered * 10 > racy + ordered,
        "{racy} racy, {ordered} ordered"
    );
}
