//! The ends of threads: a thread ends by `ret` in its entry, or by a trap, which ends the launch
//! with an error.
//!
//! LLVM writes `exit` where it takes the place for unreachable, for example behind a function that
//! it believes never to return. For PTX, `exit` is an end like any other: the launch succeeds.
//! Counterexample: the entry of a kernel that returns its element calls such a function, which
//! does return. Then the thread ends before it has written the element, and the host reads memory
//! that nothing wrote (H39). So a trap stands before each `exit`.

use super::body::{Body, Instruction, Statement};
use super::error::{Refusal, text};
use super::instruction::{Effect, effect};
use super::parse::Module;

/// Writes a trap before each `exit` of LLVM. LLVM writes the instruction in a line of its own, as
/// inline assembly.
///
/// From sm_100 on, functions that never return are declared `.noreturn`, and LLVM ends them with a
/// call that never returns. The code of a call stands in braces of its own. Behind such a call, at
/// the function's end, this function writes a trap too.
pub(super) fn trap_before_exits(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut last = "";
    for line in ptx.split_inclusive('\n') {
        if line.trim_end() == "}" && last.starts_with('}') {
            out.push_str("\ttrap; // behind a call that never returns\n");
        }
        let code = line.split("//").next().unwrap_or("").trim();
        // With source lines, LLVM ends a function with a label that no instruction names.
        if !code.is_empty() && !code.ends_with(':') {
            last = if line.starts_with('}') { "" } else { code };
        }
        if line.trim() == "exit;" {
            out.push_str(&line.replace("exit;", "trap; exit;"));
        } else {
            out.push_str(line);
        }
    }
    out
}

/// Refuses an `exit` unless a trap stands before it, and a function whose last instruction has a
/// successor: the text does not say what such a thread runs next.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    let functions = module.functions.iter();
    for (name, body) in functions.filter_map(|function| Some((function.name, function.body.as_ref()?))) {
        check_exits(body)?;
        // With source lines, LLVM ends a function with a label that no instruction names.
        let is_code = |statement: &&Statement<'_>| match statement {
            Statement::Label(label, _) => is_named(body, label),
            Statement::Instruction(_) => true,
        };
        let last = body.statements.iter().rfind(is_code);
        let ends = last.and_then(always).is_some_and(|(_, effect)| {
            matches!(
                effect,
                Effect::Return | Effect::Exit | Effect::Trap | Effect::Branch
            )
        });
        if !ends {
            return text(
                0,
                format!("a thread can run on behind the last instruction of `{name}`"),
            );
        }
    }
    Ok(())
}

/// Whether an instruction names the label.
fn is_named(body: &Body<'_>, label: &str) -> bool {
    body.statements.iter().any(|statement| match statement {
        Statement::Label(..) => false,
        Statement::Instruction(instruction) => instruction
            .text
            .split(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c)))
            .any(|word| word == label),
    })
}

fn check_exits(body: &Body<'_>) -> Result<(), Refusal> {
    // A label or a predicate before the `exit` is a way to it that passes no trap.
    let mut follows_trap = false;
    for statement in &body.statements {
        if let Statement::Instruction(instruction) = statement
            && effect(instruction) == Ok(Effect::Exit)
            && !(follows_trap && instruction.guard.is_none())
        {
            return text(
                instruction.line,
                format!(
                    "`{}` ends a thread without an error, perhaps before it has written what it returns (H39): only `ret` of an entry may, so a `trap` must stand before it",
                    instruction.text
                ),
            );
        }
        follows_trap = always(statement).is_some_and(|(_, effect)| effect == Effect::Trap);
    }
    Ok(())
}

/// An instruction without a predicate, and its effect.
fn always<'s, 'a>(statement: &'s Statement<'a>) -> Option<(&'s Instruction<'a>, Effect)> {
    match statement {
        Statement::Instruction(instruction) if instruction.guard.is_none() => {
            Some((instruction, effect(instruction).ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{provable, verify};
    use super::trap_before_exits;
    use crate::verify::refused::{FILLED, OWN, Text};

    /// An entry that returns its element, with these functions.
    fn returning(functions: &'static str, body: &str) -> Text {
        Text::of(format!(
            "{OWN}ld.param.u64 %rd1, [filled];\nsetp.eq.s32 %p1, %r5, 0;\n{body}\nst.global.u32 [%rd1], %r5;"
        ))
        .with(functions)
        .taking(&[FILLED])
    }

    const RETURNS: &str = ".func returns() { ret; }\n";

    #[test]
    fn a_thread_that_ends_without_a_trap_is_refused() {
        for body in [
            "exit;",
            "@%p1 exit;",
            "@%p1 trap;\nexit;",
            "@%p1 bra L;\ntrap;\nL: exit;",
            "trap;\n@%p1 exit;",
            "// begin inline asm\nexit;\n// end inline asm\ntrap; exit;",
            "{ call.uni returns, (); }\nexit;\ntrap; exit;",
        ] {
            returning(RETURNS, body).refused("`trap` must stand before it");
        }
        returning(".func ends() { exit; }\n", "call.uni ends, ();").refused("`trap` must stand before it");
        for body in [
            "@%p1 bra L;\ntrap;\nexit;\nL:",
            "@%p1 bra L;\ncall.uni fails, ();\ntrap; exit;\nL:",
            "@%p1 trap;",
        ] {
            returning(".func fails() .noreturn { trap; exit; }\n", body).accepted();
        }
    }

    #[test]
    fn a_thread_that_runs_on_behind_its_function_is_refused() {
        for function in [
            ".func runs() { .reg .b32 %r<2>; mov.b32 %r1, 0; }\n",
            ".func runs() { }\n",
            ".func runs() { .reg .pred %p<2>; setp.eq.s32 %p1, 0, 0; @%p1 ret; }\n",
            ".func runs() { .reg .pred %p<2>; setp.eq.s32 %p1, 0, 0; @%p1 bra L; ret; L: }\n",
        ] {
            returning(function, "call.uni runs, ();").refused("behind the last instruction of `runs`");
        }
        for function in [
            ".func loops() { L: pmevent 7; bra L; }\n",
            ".func loops() { ret; L: }\n",
        ] {
            returning(function, "call.uni loops, ();").accepted();
        }
    }

    #[test]
    fn a_trap_is_written_before_each_exit_of_llvm() {
        let body = "@%p1 bra L;\ncall.uni returns, ();\n\t// begin inline asm\n\texit;\n\t// end inline asm\n\ttrap; exit;\nL:";
        let text = returning(RETURNS, body).ptx();
        assert!(verify(&text).is_err());
        let written = provable(text).unwrap();
        assert!(written.contains("asm\n\ttrap; exit;\n\t//"), "{written}");
        verify(&written).unwrap();
        assert_eq!(trap_before_exits(&written), written);
    }

    /// As LLVM writes it for sm_100.
    #[test]
    fn a_trap_is_written_behind_a_call_that_never_returns() {
        let function = |end: &str| {
            format!(
                ".func calls()\n.noreturn\n{{\n\n\t{{ // callseq 5, 0\n\tcall.uni fails, ();\n\t}} // callseq 5\n{end}\n}}\n"
            )
        };
        let with = |end: &str| {
            let functions = format!(".func fails() .noreturn {{ trap; }}\n{}", function(end));
            returning(functions.leak(), "@%p1 bra L;\ncall.uni calls, ();\ntrap;\nL:")
        };
        for end in ["", "$L__func_end0:"] {
            with(end).refused("behind the last instruction of `calls`");
            let written = provable(with(end).ptx()).unwrap();
            assert_eq!(written.matches("\ttrap; // behind").count(), 1, "{written}");
            verify(&written).unwrap();
        }
        let returns = function("\tret;");
        assert_eq!(trap_before_exits(&returns), returns);
    }

    #[test]
    fn a_name_that_ends_in_exit_stays_as_it_is() {
        for text in [
            "call at_exit;\n",
            "@%p1 exit;\n",
            "trap; exit;\n",
            "// exit;\n",
            "exit",
        ] {
            assert_eq!(trap_before_exits(text), text);
        }
    }
}
