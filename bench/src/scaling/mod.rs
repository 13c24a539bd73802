//! Scaling: the host's cost of one operation beside 1 to 10,000 other objects, and on 1 to 16
//! threads, by raw calls and by cuda-rt. If a cost grows with a number, the table shows it.

mod buffers;
mod in_flight;
mod streams;
mod threads;

use std::time::Instant;

use cuda_rt::{Device, Live};

use crate::raw::Raw;
use crate::report::{Cell, OURS, RAW, Report};
use crate::rounds::{Figures, Metric, Outcome};

/// Elements of each buffer.
const LEN: usize = 1024;

/// The groups, by their names on the command line.
pub(crate) const GROUPS: [(&str, &str); 4] = [
    ("scaling-buffers", "each operation beside 1 to 10,000 buffers"),
    (
        "scaling-in-flight",
        "beside 1 to 10,000 handoffs in flight, and as many leases",
    ),
    ("scaling-streams", "each operation in turn on 1 to 1,000 streams"),
    (
        "scaling-threads",
        "1 to 16 threads, on one stream and on streams of their own",
    ),
];

/// An operation, which is timed many times together.
type Call<'a> = Box<dyn FnMut() -> Outcome + 'a>;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Measured rounds of each way.
    pub(crate) rounds: usize,
    /// Calls that are timed together.
    pub(crate) calls: usize,
    /// The largest number of objects.
    pub(crate) most: usize,
}

/// What the groups share.
struct Scaling<'a, D: Live> {
    gpu: &'a Device<D>,
    raw: Option<&'static Raw>,
    plan: Plan,
    report: &'a mut Report,
}

/// Runs a group.
pub(crate) fn run<D: Live>(
    group: &str,
    gpu: &Device<D>,
    raw: Option<&'static Raw>,
    plan: Plan,
    report: &mut Report,
) -> Outcome {
    let mut scaling = Scaling {
        gpu,
        raw,
        plan,
        report,
    };
    match group {
        "scaling-buffers" => buffers::run(&mut scaling),
        "scaling-in-flight" => in_flight::run(&mut scaling),
        "scaling-streams" => streams::run(&mut scaling),
        "scaling-threads" => threads::run(&mut scaling),
        _ => Err(format!("there is no group {group}").into()),
    }
}

impl<D: Live> Scaling<'_, D> {
    /// The numbers up to the largest.
    fn numbers(&self, numbers: &[usize]) -> Vec<usize> {
        let most = self.plan.most;
        numbers.iter().copied().filter(|number| *number <= most).collect()
    }

    /// Measures an operation in both ways, in turn. `settle` waits for all work, outside of the
    /// time.
    fn cell(
        &mut self,
        (operation, of, number): (&'static str, &'static str, usize),
        raw: Option<Call<'_>>,
        ours: Call<'_>,
        settle: &dyn Fn() -> Outcome,
    ) -> Outcome {
        let Plan { rounds, calls, .. } = self.plan;
        let time = move |call: &mut Call<'_>| -> Outcome<f64> {
            settle()?;
            let started = Instant::now();
            for _ in 0..calls {
                call()?;
            }
            Ok(started.elapsed().as_nanos() as f64 / calls as f64)
        };
        let named = raw.map(|call| (RAW, call)).into_iter();
        let ways = named.chain([(OURS, ours)]);
        let samples = ways.map(|(name, mut call)| (name, Box::new(move || time(&mut call)) as _));
        self.samples((operation, of, number), samples.collect(), rounds)?;
        settle()
    }

    /// Takes samples of each way in turn. A sample is the time of one operation, in ns.
    fn samples(
        &mut self,
        (operation, of, number): (&'static str, &'static str, usize),
        mut ways: Vec<(&'static str, Box<dyn FnMut() -> Outcome<f64> + '_>)>,
        rounds: usize,
    ) -> Outcome {
        const WARM_UP: usize = 2;
        let mut figures: Vec<_> = ways.iter().map(|(name, _)| Figures::new(name)).collect();
        for round in 0..WARM_UP + rounds {
            for offset in 0..ways.len() {
                let at = (round + offset) % ways.len();
                let (name, sample) = &mut ways[at];
                let sample =
                    sample().map_err(|error| format!("{operation}, {number} {of}, {name}: {error}"))?;
                if round >= WARM_UP {
                    figures[at].add(Metric::PerCall, sample);
                }
            }
        }
        self.report.cell(Cell {
            operation,
            of,
            number,
            figures,
        });
        Ok(())
    }

    /// Prints the rows of a finished group.
    fn print(&self, of: &str, operations: &[&str]) {
        for operation in operations {
            println!("{}", self.report.scaling_table(operation, of));
        }
    }
}

/// The index of the next object: each in turn.
fn turn(at: &mut usize, number: usize) -> usize {
    *at = (*at + 1) % number;
    *at
}
