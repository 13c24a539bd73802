//! Reads the machine code that `nvdisasm -c` prints.

use std::collections::HashMap;

/// What is counted in the code of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) instructions: usize,
    /// The instructions of each innermost loop, the longest first.
    pub(super) loops: Vec<usize>,
    pub(super) loads: Accesses,
    pub(super) stores: Accesses,
}

/// Accesses of global memory, and those of 16 bytes among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accesses {
    pub(super) all: usize,
    pub(super) wide: usize,
}

impl Accesses {
    fn count(&mut self, operation: &str) {
        self.all += 1;
        self.wide += usize::from(operation.contains(".128"));
    }
}

/// Counts the code of the entry `symbol`. Functions that it calls have labels with `$` in the same
/// section; they end the entry's own code.
pub(super) fn of(text: &str, symbol: &str) -> Option<Code> {
    let begin = format!(".text.{symbol}:");
    let lines = text.lines().skip_while(|line| line.trim() != begin).skip(1);
    let mut code = Code::default();
    let mut labels: HashMap<&str, usize> = HashMap::new();
    let mut loops: Vec<(usize, usize)> = Vec::new();
    let mut found = false;
    for line in lines {
        let line = line.trim();
        if line.starts_with("//---")
            || line.contains("$_") && line.ends_with(':')
            || is_function(line, symbol)
        {
            break;
        }
        found = true;
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label, code.instructions);
        }
        let Some(instruction) = instruction(line) else {
            continue;
        };
        let at = code.instructions;
        let mut words = instruction
            .split_whitespace()
            .skip_while(|word| word.starts_with('@'));
        let operation = words.next().unwrap_or("");
        if operation == "NOP" {
            continue;
        }
        code.instructions += 1;
        if operation.starts_with("LDG") || operation.starts_with("LD.") {
            code.loads.count(operation);
        } else if operation.starts_with("STG") || operation.starts_with("ST.") {
            code.stores.count(operation);
        } else if operation.starts_with("BRA") {
            let target = target(instruction).and_then(|label| labels.get(label));
            // A branch to itself stands behind the end of the code.
            if let Some(&target) = target.filter(|target| **target < at) {
                loops.push((target, at));
            }
        }
    }
    code.loops = innermost(&loops);
    found.then_some(code)
}

/// `$entry$function:`, a function that the entry calls.
fn is_function(line: &str, symbol: &str) -> bool {
    line.strip_prefix('$')
        .is_some_and(|rest| rest.starts_with(symbol) && rest.ends_with(':'))
}

/// The instruction of `/*0090*/  @P0 EXIT ;`.
fn instruction(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let rest = rest.trim();
    (!rest.is_empty()).then(|| rest.trim_end_matches(';').trim())
}

/// The label of ``BRA `(.L_x_139)``.
fn target(instruction: &str) -> Option<&str> {
    instruction.split_once("`(")?.1.split(')').next()
}

/// The lengths of the loops in which no other loop lies.
fn innermost(loops: &[(usize, usize)]) -> Vec<usize> {
    let mut lengths: Vec<usize> = loops
        .iter()
        .filter(|(first, last)| {
            !loops
                .iter()
                .any(|other| other != &(*first, *last) && first <= &other.0 && &other.1 <= last)
        })
        .map(|(first, last)| last - first + 1)
        .collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
//--------------------- .text.scale__a1 --------------------------
.text.scale__a1:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR6][R8.64] ;
.L_x_2:
        /*0020*/               @P0 LDG.E R4, desc[UR6][R8.64] ;
        /*0030*/               @P0 BRA `(.L_x_2) ;
        /*0040*/                   STG.E desc[UR6][R8.64], R4 ;
        /*0050*/              @!P1 BRA `(.L_x_1) ;
        /*0060*/                   EXIT ;
        .weak           $scale__a1$_RNvNtNtCs0_4core9panicking9panic_fmt
$scale__a1$_RNvNtNtCs0_4core9panicking9panic_fmt:
        /*0070*/                   BPT.TRAP 0x1 ;
.L_x_3:
        /*0080*/                   BRA `(.L_x_3);
        /*0090*/                   NOP;
//--------------------- .text.other__a1 --------------------------
.text.other__a1:
        /*0000*/                   EXIT ;
";

    #[test]
    fn code_is_counted_up_to_the_functions_that_it_calls() {
        let code = of(TEXT, "scale__a1").unwrap();
        assert_eq!(code.instructions, 7);
        assert_eq!(code.loops, [2]);
        assert_eq!(code.loads, Accesses { all: 2, wide: 1 });
        assert_eq!(code.stores, Accesses { all: 1, wide: 0 });
        assert_eq!(of(TEXT, "other__a1").unwrap().instructions, 1);
        assert_eq!(of(TEXT, "none__a1"), None);
    }
}
