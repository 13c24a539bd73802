//! Names used in unusual ways.

use hazard_programs::Program;

#[track_caller]
fn verdict(statements: &[&str], racy: bool) {
    let races = Program::parse(statements).unwrap().run().unwrap();
    assert_eq!(!races.is_empty(), racy, "{statements:?}: {races:?}");
    assert_eq!(crate::agreement::compare(statements), Some(racy), "the oracle");
}

#[test]
fn parts_are_disjoint_and_lie_in_their_wholes() {
    let on_two_streams = |a: &str, b: &str, racy| {
        let (a, b) = (format!("k(W {a})@s"), format!("k(W {b})@t"));
        verdict(&["mem d:dev,d2:dev", "str s:nb,t:nb", &a, &b], racy);
    };
    on_two_streams("d.lo", "d.hi", false);
    on_two_streams("d.0", "d.1", false);
    on_two_streams("d.lo", "d.0", false);
    on_two_streams("d.lo.0", "d.lo.1", false);
    on_two_streams("d", "d2", false);
    on_two_streams("d.lo", "d.lo", true);
    on_two_streams("d.007", "d.7", true);
    on_two_streams("d.lo", "d", true);
    on_two_streams("d", "d.hi.3", true);
    on_two_streams("d.hi", "d.hi.3", true);
}

#[test]
fn keywords_may_be_names() {
    verdict(
        &[
            "mem R:dev,W:dev,k:dev",
            "str T2:nb,host:nb",
            "k(R R W W,k)@T2",
            "rec(k)@T2",
            "wait(host,k)",
            "k(R W W R)@host",
        ],
        false,
    );
    verdict(
        &[
            "mem R:dev,W:dev",
            "str T2:nb,host:nb",
            "k(R R W W)@T2",
            "k(R W W R)@host",
        ],
        true,
    );
}

#[test]
fn a_stream_made_again_is_another_stream() {
    verdict(
        &[
            "mem d:dev",
            "str s:nb",
            "k(W d)@s",
            "destroy(s)",
            "str s:nb",
            "k(R d)@s",
        ],
        true,
    );
    verdict(
        &[
            "mem d:dev",
            "str s:nb",
            "k(W d)@s",
            "destroy(s)",
            "str s:nb",
            "stSync(s)",
            "host R d",
        ],
        true,
    );
    verdict(
        &[
            "mem d:dev",
            "str s:nb",
            "k(W d)@s",
            "destroy(s)",
            "devSync",
            "host R d",
        ],
        false,
    );
}

#[test]
fn memory_given_out_again_is_other_memory() {
    verdict(
        &[
            "mem d:dev",
            "str s:nb,t:nb",
            "mallocA(d)@s",
            "k(W d)@s",
            "freeA(d)@s",
            "mallocA(d)@t",
            "k(W d)@t",
        ],
        false,
    );
    verdict(
        &[
            "mem d:dev",
            "str s:nb,t:nb",
            "mallocA(d)@s",
            "k(W d)@s",
            "freeA(d)@s",
            "k(R d)@t",
        ],
        true,
    );
    verdict(&["mem d:dev", "str s:nb,t:nb", "mallocA(d)@s", "k(W d)@t"], true);
}

#[test]
fn memory_that_is_allocated_need_not_be_declared() {
    verdict(&["malloc(d)", "str s:nb,t:nb", "k(W d)@s", "k(R d)@t"], true);
    verdict(
        &["malloc(d)", "str s:nb,t:nb", "k(W d)@s", "stSync(s)", "k(R d)@t"],
        false,
    );
    verdict(&["str s:nb,t:nb", "mallocA(d)@s", "k(W d)@t"], true);
    // Only in its own space: a copy from pageable memory to the device may still run when the call
    // returns; a copy to pinned memory may not.
    verdict(
        &["mem h:page", "str s:nb", "malloc(d)", "cpy(d<-h)", "k(R d)@s"],
        true,
    );
    verdict(
        &["mem h:page", "str s:nb", "hostAlloc(d)", "cpy(d<-h)", "k(R d)@s"],
        false,
    );
    // On the current device: a copy between two devices is a barrier on both.
    let copy = |set: &str, racy| {
        let steps = [
            "mem a:dev@0",
            set,
            "malloc(b)",
            "setDev(0)",
            "str t:nb@1",
            "k(W c)@t",
            "cpyPeer(b<-a)",
            "k(R c)@u",
        ];
        let steps: Vec<&str> = ["mem c:dev", "str u:nb@0"].into_iter().chain(steps).collect();
        verdict(&steps, racy);
    };
    copy("setDev(1)", false);
    copy("setDev(0)", true);
}

#[test]
fn threads_start_after_mains_work_and_have_their_own_device() {
    verdict(
        &["mem p:pin", "host W p", "T2: host W p", "join(T2)", "host R p"],
        false,
    );
    verdict(&["mem p:pin", "T2: host W p", "host R p"], true);
    verdict(&["mem p:pin", "T1: host W p", "T2: host R p"], true);
    verdict(
        &[
            "mem m:man",
            "setDev(1)",
            "k(W m)@0",
            "T2: devSync",
            "T2: host R m",
        ],
        true,
    );
    verdict(
        &[
            "mem m:man",
            "setDev(1)",
            "k(W m)@0",
            "T2: setDev(1)",
            "T2: devSync",
            "T2: host R m",
        ],
        false,
    );
    verdict(
        &[
            "mem p:pin",
            "T2: host W p",
            "join(T2)",
            "T2: host W p",
            "host R p",
        ],
        true,
    );
}

#[test]
fn an_event_is_its_most_recent_record() {
    let start = ["mem d:dev", "str s:nb,t:nb"];
    let with = |rest: &[&'static str], racy| verdict(&[&start, rest].concat(), racy);
    with(
        &["k(W d)@s", "rec(e)@s", "destroyEv(e)", "wait(t,e)", "k(R d)@t"],
        true,
    );
    with(
        &["k(W d)@s", "rec(e)@s", "wait(t,e)", "destroyEv(e)", "k(R d)@t"],
        false,
    );
    with(&["rec(e)@s", "k(W d)@s", "wait(t,e)", "k(R d)@t"], true);
    with(&["wait(t,e)", "k(W d)@s", "rec(e)@s", "k(R d)@t"], true);
    with(&["k(W d)@s", "rec(e)@s", "T2: wait(t,e)", "k(R d)@t"], false);
}

#[test]
fn a_request_means_its_latest_use() {
    verdict(
        &["mem p:pin", "extA W p #r", "extWait #r", "extWait #r", "host R p"],
        false,
    );
    verdict(
        &[
            "mem p:pin,q:pin",
            "extA W p #r",
            "extA W q #r",
            "extWait #r",
            "host R q",
        ],
        false,
    );
    verdict(
        &[
            "mem p:pin,q:pin",
            "extA W p #r",
            "extA W q #r",
            "extWait #r",
            "host R p",
        ],
        true,
    );
    verdict(&["mem p:pin", "T2: extA W p #r", "extWait #r", "host R p"], false);
}
