//! Plans that once found a defect.

use crate::mutants::{Count, mutants_of, mutants_with};
use crate::plan::{Act, Kernel, Make, Meet, Plan, Step, Through, Way, Work};

fn step(lane: u8, x: u8, y: u8, act: Act) -> Step {
    let device = 0;
    Step {
        device,
        lane,
        x,
        y,
        act,
    }
}

fn judge(seed: u8, steps: Vec<Step>) {
    let mut count = Count::default();
    let threads = vec![steps];
    mutants_of(&Plan { seed, threads }, &mut count);
    assert!(count.shown > 0, "{count:?}");
}

/// A pinned block that was reused too early received the bytes that it already had, so no order
/// could show the error. Now all uploads differ.
#[test]
fn a_block_that_is_taken_again_too_early_shows() {
    judge(0, vec![step(0, 2, 0, Act::Forget)]);
}

/// Memory that was never given out before held zeros. A read that came before the zeroing therefore
/// read the right bytes.
#[test]
fn zeroed_memory_that_is_read_too_early_shows() {
    // Every plan begins with zeroed memory on the second device.
    judge(
        3,
        vec![Step {
            device: 1,
            ..step(0, 0, 0, Act::Release)
        }],
    );
}

/// A download that runs after the next download into the same memory shows only between the host's
/// wait and the host's read.
#[test]
fn a_late_download_over_a_later_one_shows() {
    let fill = |upto| {
        Act::Work(Work::Fill {
            to: 0,
            from: 0,
            upto,
            value: 0,
        })
    };
    let works = [Work::Upload { to: 1 }, Work::Download { from: 1 }];
    let steps = vec![
        step(0, 2, 0, Act::Release),
        step(
            0,
            0,
            0,
            Act::Make {
                how: Make::Zeroed,
                len: 0,
                parts: 1,
                host: false,
            },
        ),
        step(0, 0, 0, fill(1)),
        step(0, 4, 0, fill(1)),
        step(0, 5, 0, Act::Constant),
        step(
            0,
            3,
            0,
            Act::Slot {
                works,
                next: 2,
                panics: false,
            },
        ),
    ];
    judge(0, steps);
}

/// A graph overwrites memory that an upload still reads, on a stream that waits for earlier work of
/// the upload's stream.
#[test]
fn a_graph_that_is_launched_too_early_shows() {
    let copy = Work::Kernel {
        kernel: Kernel::Copy,
        from: 1,
        to: 0,
    };
    let works = [Work::Download { from: 0 }, Work::Download { from: 3 }];
    let graph = Act::Graph {
        works,
        fork: Some(2),
        launches: 2,
        between: None,
        update: None,
        host: None,
        replace: false,
        drops: true,
    };
    let steps = vec![
        step(2, 1, 1, Act::Release),
        step(2, 7, 5, Act::Both(Work::Upload { to: 0 }, Meet::Joined)),
        step(2, 3, 5, Act::Both(copy, Meet::Each)),
        step(0, 5, 6, graph),
        step(
            1,
            5,
            0,
            Act::Work(Work::Fill {
                to: 0,
                from: 1,
                upto: 3,
                value: -8,
            }),
        ),
        step(
            2,
            3,
            1,
            Act::Both(
                Work::Add {
                    left: 1,
                    right: 3,
                    to: 2,
                },
                Meet::Joined,
            ),
        ),
    ];
    judge(96, steps);
}

/// A kernel uses pinned memory in place. Without the order of its end the host unregisters the
/// memory first, and the device is lost. This was taken for a defect of the replay.
#[test]
fn memory_that_is_unregistered_under_a_kernel_is_refused() {
    let mapped = Work::Mapped {
        way: Way::Within,
        kernel: Kernel::Scale(2),
        part: 0,
    };
    let view = Act::Kept(Through::View {
        worker: 0,
        work: mapped,
    });
    let managed = Act::NewManaged {
        how: Make::Zeroed,
        len: 0,
    };
    let steps = [step(0, 0, 0, view), step(1, 0, 0, managed)];
    let steps = steps.map(|step| Step { device: 1, ..step }).to_vec();
    let mut count = Count::default();
    let threads = vec![steps];
    mutants_with(&Plan { seed: 0, threads }, true, &mut count);
    assert!(count.refused > 0, "{count:?}");
}
