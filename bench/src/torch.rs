//! [`Torch`]: a Python process that runs the programs with PyTorch, in the same alternating rounds.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::rounds::{Check, Outcome, Round, Way};

const SCRIPT: &str = include_str!("torch.py");

/// The process. It measures its own time and processor time.
pub(crate) struct Torch {
    child: Child,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
    /// The version of PyTorch, and of its CUDA runtime.
    pub(crate) version: String,
}

impl Torch {
    /// Starts `python`. Fails if there is no Python, no PyTorch, or no GPU for it.
    pub(crate) fn start(python: &str) -> Outcome<Self> {
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{python}: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process has no pipes".into());
        };
        let mut torch = Self {
            child,
            pipes: RefCell::new((input, BufReader::new(output))),
            version: String::new(),
        };
        let hello = torch.answer()?;
        let part = |key: &str| hello[key].as_str().unwrap_or("unknown").to_owned();
        torch.version = format!("{}, CUDA {}", part("torch"), part("cuda"));
        Ok(torch)
    }

    fn answer(&self) -> Outcome<Value> {
        let mut line = String::new();
        if self.pipes.borrow_mut().1.read_line(&mut line)? == 0 {
            return Err("the Python process ended".into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        match answer["error"].as_str() {
            Some(error) => Err(format!("Python: {error}").into()),
            None => Ok(answer),
        }
    }

    fn ask(&self, question: &Value) -> Outcome<Value> {
        writeln!(self.pipes.borrow_mut().0, "{question}")?;
        self.answer()
    }

    /// A program, which [`Program::for_torch`](crate::programs::Program::for_torch) names, in this
    /// process.
    pub(crate) fn open(&self, program: Value) -> Outcome<Box<dyn Way + '_>> {
        let opened = self.ask(&json!({ "ask": "open", "program": program }))?;
        let at = opened["opened"].as_u64().ok_or("no program was opened")?;
        Ok(Box::new(Opened { torch: self, at }))
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // The process has nothing to clean up. It may have ended before, which is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Opened<'a> {
    torch: &'a Torch,
    at: u64,
}

fn seconds(value: &Value) -> Outcome<Duration> {
    let seconds = value.as_f64().ok_or("Python gave no time")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}

impl Way for Opened<'_> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let every = check == Check::Every;
        let asked = json!({ "ask": "round", "at": self.at, "items": items, "every": every });
        let answer = self.torch.ask(&asked)?;
        let latencies = answer["latencies"].as_array().ok_or("Python gave no latencies")?;
        Ok(Round {
            wall: seconds(&answer["wall"])?,
            processor: seconds(&answer["processor"])?,
            latencies: latencies.iter().map(seconds).collect::<Outcome<_>>()?,
        })
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let answer = self.torch.ask(&json!({ "ask": "burst", "at": self.at }))?;
        Ok(answer["burst"].as_f64().map(|seconds| seconds * 1e9))
    }
}
