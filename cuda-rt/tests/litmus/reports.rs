//! The text of a report.

use cuda_rt::checker::{AccessKind, Site};
use hazard_programs::Program;

#[test]
fn a_report_names_both_sides_the_edge_and_the_mending_call() {
    let program = [
        "mem d:dev,p:pin",
        "str compute:nb,download:nb",
        "k(W d)@compute",
        "cpyA(p<-d)@download",
        "host R p",
    ];
    let races = Program::parse(program).unwrap().run().unwrap();
    assert_eq!(races.len(), 2);
    assert_eq!(
        (
            races[0].first.access,
            races[0].second.access,
            races[0].second.operation.site
        ),
        (AccessKind::Write, AccessKind::Read, Site::Statement(3))
    );
    assert_eq!(
        races[0].to_string(),
        "data race on 1 bytes at 0x0
  first:   written by `kernel` of stream `compute`, at statement 3
  second:  read by `cpyA` of stream `download`, at statement 4
  missing: nothing makes `cpyA` of stream `download` wait for `kernel` of stream `compute`
  mend:    `let buffer = b.acquire(a.release(buffer)?)?` with a = `compute`, b = `download`; in raw calls, record an event on \
`compute` after the first and make `download` wait for it before the second"
    );
    assert_eq!(
        races[1].missing_edge(),
        "nothing makes `host` of host thread `main` wait for `cpyA` of stream `download`"
    );
    assert!(
        races[1]
            .mending()
            .starts_with("`let buffer = a.release(buffer)?.synchronize()?` with a = `download`")
    );
}
