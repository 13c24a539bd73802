//! What a module must have, and must not.

use crate::error::BuildError;
use crate::verify::verify;

/// The entries of a module that can be used.
pub(crate) fn inspect(package: &str, ptx: &str, llvm_ir: &str) -> Result<Vec<String>, BuildError> {
    let names = mutable_statics(llvm_ir);
    if !names.is_empty() {
        return Err(BuildError::MutableStatic { names });
    }
    let entries = entries(ptx);
    if entries.is_empty() {
        return Err(BuildError::NoEntries {
            package: package.to_owned(),
        });
    }
    for entry in &entries {
        if !ptx.contains(&format!(" __cuda_rt_layout_{entry}[")) {
            return Err(BuildError::NoLayoutTable { entry: entry.clone() });
        }
    }
    verify(ptx)?;
    Ok(entries)
}

fn entries(ptx: &str) -> Vec<String> {
    ptx.lines()
        .filter_map(|line| line.trim_start().strip_prefix(".visible .entry "))
        .filter_map(|rest| rest.split(['(', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// Globals that are neither `constant` nor shared memory. The PTX does not tell them apart; LLVM's own text does.
fn mutable_statics(llvm_ir: &str) -> Vec<String> {
    llvm_ir
        .lines()
        .filter_map(|line| line.strip_prefix('@')?.split_once(" = "))
        .filter(|(_, definition)| is_mutable(definition))
        .map(|(name, _)| format!("`{}`", name.trim_matches('"')))
        .collect()
}

/// Reads what stands before the initialiser only: the bytes in that are the user's, and may spell anything.
fn is_mutable(definition: &str) -> bool {
    for word in definition.split_whitespace() {
        match word {
            "global" => return true,
            "constant" | "addrspace(3)" => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 7.0
.target sm_80
.visible .global .align 8 .b8 __cuda_rt_layout_a__1[8] = {1};
.visible .entry a__1(
)
{
ret;
}
";

    #[test]
    fn a_module_with_an_entry_and_its_table_passes() {
        let ir = "@__cuda_rt_layout_a__1 = constant [8 x i8] c\"global\", align 8\n@shared = external addrspace(3) global [0 x i8]";
        assert_eq!(inspect("p", PTX, ir).unwrap(), ["a__1"]);
    }

    #[test]
    fn no_entries_are_refused() {
        let error = inspect("p", ".func helper", "").unwrap_err();
        assert!(matches!(error, BuildError::NoEntries { package } if package == "p"));
    }

    #[test]
    fn an_entry_without_its_table_is_refused() {
        let error = inspect("p", ".visible .entry b__2(\n", "").unwrap_err();
        assert!(matches!(error, BuildError::NoLayoutTable { entry } if entry == "b__2"));
    }

    #[test]
    fn a_mutable_static_is_refused() {
        for definition in [
            "internal unnamed_addr global i32 0, align 4",
            "local_unnamed_addr global [4 x i8] zeroinitializer",
            // A static that holds the text of the exception.
            "internal global <{ [4 x i8], [12 x i8] }> <{ [4 x i8] zeroinitializer, [12 x i8] c\"addrspace(3)\" }>",
        ] {
            let error = inspect("p", PTX, &format!("@COUNT = {definition}")).unwrap_err();
            assert!(
                matches!(&error, BuildError::MutableStatic { names } if names == &["`COUNT`"]),
                "{error}"
            );
        }
    }
}
