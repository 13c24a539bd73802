//! [`Group`]: several ways to do one task, timed in alternating rounds of one run.

use std::time::Instant;

/// Measured rounds of each way.
pub(crate) const ROUNDS: usize = 501;

/// One way to do the task, and its time in each round.
pub(crate) struct Way<'a> {
    name: &'static str,
    call: Box<dyn FnMut() + 'a>,
    samples: Vec<f64>,
}

/// Several ways to do one task. The others are compared with the first.
pub(crate) struct Group<'a> {
    name: &'static str,
    ways: Vec<Way<'a>>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            ways: Vec::new(),
        }
    }

    pub(crate) fn way(mut self, name: &'static str, call: impl FnMut() + 'a) -> Self {
        self.ways.push(Way {
            name,
            call: Box::new(call),
            samples: Vec::new(),
        });
        self
    }

    /// Times `calls` calls of each way together, all ways in turn. `settle` drains the streams in
    /// between, so that no queue fills up.
    pub(crate) fn run(&mut self, calls: u32, settle: &dyn Fn()) {
        self.time(ROUNDS, calls, settle, false);
    }

    /// Like [`run`](Self::run), for `rounds` rounds. The time includes draining the streams.
    #[allow(dead_code, reason = "not every benchmark looks at the device's time")]
    pub(crate) fn run_to_the_end(&mut self, rounds: usize, calls: u32, settle: &dyn Fn()) {
        self.time(rounds, calls, settle, true);
    }

    fn time(&mut self, rounds: usize, calls: u32, settle: &dyn Fn(), to_the_end: bool) {
        for round in 0..rounds + 20 {
            // Each way is first as often as last.
            let first = round % self.ways.len();
            for i in 0..self.ways.len() {
                let at = (first + i) % self.ways.len();
                let way = &mut self.ways[at];
                settle();
                let start = Instant::now();
                for _ in 0..calls {
                    (way.call)();
                }
                if to_the_end {
                    settle();
                }
                let ns = start.elapsed().as_nanos() as f64 / f64::from(calls);
                // The first rounds warm up.
                if round >= 20 {
                    way.samples.push(ns);
                }
            }
        }
        settle();
    }

    pub(crate) fn report(&mut self, json: &mut Vec<String>) {
        println!("{}", self.name);
        let base = self.ways[0].samples.clone();
        for way in &mut self.ways {
            // The ratio is taken round by round: a slow round slows both ways.
            let mut ratios: Vec<_> = way
                .samples
                .iter()
                .zip(&base)
                .map(|(sample, base)| sample / base)
                .collect();
            let ratio = quantile(&mut ratios, 0.5);
            let [low, median, high] = [0.1, 0.5, 0.9].map(|q| quantile(&mut way.samples, q));
            println!(
                "  {:<48} {median:>9.1} ns  [{low:>8.1}, {high:>8.1}]  {ratio:.3} x",
                way.name
            );
            json.push(format!(
                r#"{{"group":"{}","way":"{}","median_ns":{median:.2},"p10_ns":{low:.2},"p90_ns":{high:.2},"ratio":{ratio:.4}}}"#,
                self.name, way.name
            ));
        }
    }
}

fn quantile(samples: &mut [f64], q: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(q * (samples.len() - 1) as f64) as usize]
}
