//! Checks of a built module: assembly, statics, remainders, entries, layout tables, and the proof.

use crate::error::BuildError;
use crate::sources::Fnv;
use crate::statics::{has_assembly, mutable_statics};
use crate::verify::{verify, versions};

/// Checks a module, and returns its entries.
pub(crate) fn inspect(package: &str, ptx: &str, llvm_ir: &str) -> Result<Vec<String>, BuildError> {
    if has_assembly(llvm_ir) {
        return Err(BuildError::Assembly {
            crates: vec![format!("`{package}`")],
        });
    }
    let names = mutable_statics(llvm_ir);
    if !names.is_empty() {
        return Err(BuildError::MutableStatic { names });
    }
    let kernels = inexact_remainders(llvm_ir);
    if !kernels.is_empty() {
        return Err(BuildError::InexactRemainder { kernels });
    }
    let functions = masked_vectors(llvm_ir);
    if !functions.is_empty() {
        return Err(BuildError::MaskedVector { functions });
    }
    let rounding = wide_roundings(llvm_ir);
    if !rounding.is_empty() {
        return Err(BuildError::WideRounding { functions: rounding });
    }
    let entries = entries(ptx);
    if entries.is_empty() {
        return Err(BuildError::NoEntries {
            package: package.to_owned(),
        });
    }
    for entry in &entries {
        if !has_table(ptx, entry) {
            return Err(BuildError::NoLayoutTable { entry: entry.clone() });
        }
    }
    let other = |version: u64| version != Fnv::of_text(env!("CARGO_PKG_VERSION")) >> 32;
    if let Some((entry, _)) = versions(ptx)?.into_iter().find(|(_, version)| other(*version)) {
        return Err(BuildError::OtherVersion { entry });
    }
    let proved = verify(ptx)?.entries;
    // An entry may stand anywhere in a line, and then nobody has looked for its table.
    match proved.into_iter().find(|(entry, _)| !entries.contains(entry)) {
        Some((entry, _)) => Err(BuildError::NoLayoutTable { entry }),
        None => Ok(entries),
    }
}

/// Whether a line declares the layout table of this entry. The proof reads the table.
fn has_table(ptx: &str, entry: &str) -> bool {
    let declarations = ptx
        .lines()
        .filter(|line| line.trim_start().starts_with(".visible .global"));
    let mut names = declarations.filter_map(|line| line.split('[').next()?.split_whitespace().last());
    names.any(|name| name.strip_prefix("__cuda_rt_layout_") == Some(entry))
}

fn entries(ptx: &str) -> Vec<String> {
    ptx.lines()
        .filter_map(|line| line.trim_start().strip_prefix(".visible .entry "))
        .filter_map(|rest| rest.split(['(', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// The functions with a remainder of floats, which LLVM computes on a GPU by a rounded division.
fn inexact_remainders(llvm_ir: &str) -> Vec<String> {
    functions_with(llvm_ir, |line| line.contains(" = frem "))
}

/// The functions with an access to some elements of a vector. For a GPU, LLVM 22 reads all elements
/// instead, also those that lie behind the memory, and forgets the values that the others have
/// (llvm/llvm-project#159387).
fn masked_vectors(llvm_ir: &str) -> Vec<String> {
    functions_with(llvm_ir, |line| {
        line.contains(" @llvm.masked.") || line.contains(" @llvm.vp.")
    })
}

/// The functions that round a float of more than 16 bits to the nearest whole number, ties away
/// from zero. PTX has no such instruction: LLVM writes others, which give a NaN another sign in
/// each type. LLVM takes the sign of the wider rounding for the sign of the narrower one
/// (`verify/conversion.rs`). Only `f16` has a safe function; LLVM may narrow the `round` of an
/// `f128` to other types.
fn wide_roundings(llvm_ir: &str) -> Vec<String> {
    functions_with(llvm_ir, |line| {
        let mut types = line.split(" @llvm.round.").skip(1);
        types.any(|of| !of.split('(').next().unwrap_or("").ends_with("f16"))
    })
}

/// The functions with such an instruction. In LLVM's text, the lines of a function are indented,
/// and the lines of constants are not.
fn functions_with(llvm_ir: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut function = "";
    let mut found: Vec<String> = Vec::new();
    for line in llvm_ir.lines() {
        if line.starts_with("define ") {
            function = line
                .split_once('@')
                .and_then(|(_, rest)| rest.split('(').next())
                .unwrap_or("")
                .trim_matches('"');
        } else if line.starts_with(' ') && is_wanted(line) {
            // The entry's name is the kernel's name, two underscores and a hash.
            let name = format!(
                "`{}`",
                function.rsplit_once("__").map_or(function, |(name, _)| name)
            );
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables whose first number lacks the version.
    const PTX: &str = "\
.version 7.0
.target sm_80
.visible .global .align 8 .u64 __cuda_rt_layout_a__1[4] = {1};
.visible .global .align 8 .u64 __cuda_rt_parameters_a__1[1] = {34359738392};
.visible .entry a__1(
.param .align 8 .b8 extent[24]
)
{
ret;
}
";

    /// The text with this version in its layout tables.
    fn of_version(ptx: &str, version: &str) -> String {
        let launch = Fnv::of_text(version) >> 32 << 32 | 1;
        ptx.replace("= {1}", &format!("= {{{launch}}}"))
    }

    fn ptx() -> String {
        of_version(PTX, env!("CARGO_PKG_VERSION"))
    }

    #[test]
    fn a_module_of_another_version_is_refused() {
        let bytes = PTX.replace(
            ".u64 __cuda_rt_layout_a__1[4] = {1}",
            ".b8 __cuda_rt_layout_a__1[32] = {1, 0, 0, 0, 7}",
        );
        for other in [PTX, &bytes, &of_version(PTX, "0.0.999")] {
            let error = inspect("p", other, "").unwrap_err();
            assert!(
                matches!(&error, BuildError::OtherVersion { entry } if entry == "a__1"),
                "{error}"
            );
            assert!(error.to_string().contains(env!("CARGO_PKG_VERSION")), "{error}");
        }
    }

    #[test]
    fn a_module_with_an_entry_and_its_table_passes() {
        let ir = "@__cuda_rt_layout_a__1 = constant [8 x i8] c\"global\", align 8\n@shared = external addrspace(3) global [0 x i8]";
        assert_eq!(inspect("p", &ptx(), ir).unwrap(), ["a__1"]);
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
        let tables = [
            ".visible .global .align 8 .u64 x__cuda_rt_layout_b__2[4] = {1};",
            ".visible .global .align 8 .u64 __cuda_rt_layout_b__22[4] = {1};",
            "// .visible .global .align 8 .u64 __cuda_rt_layout_b__2[4] = {1};",
            "mov.b64 %rd1, __cuda_rt_layout_b__2[4];",
        ];
        for table in tables {
            let error = inspect("p", &format!("{table}\n.visible .entry b__2(\n"), "").unwrap_err();
            assert!(
                matches!(&error, BuildError::NoLayoutTable { entry } if entry == "b__2"),
                "{table}: {error}"
            );
        }
        let second = "ret; } .visible .global .align 8 .u64 __cuda_rt_parameters_b__2[1] = {34359738392}; \
                      .visible .global .align 8 .u64 __cuda_rt_layout_b__2[4] = {1}; \
                      .visible .entry b__2(.param .align 8 .b8 extent[24]) { ret;";
        let error = inspect(
            "p",
            &of_version(&PTX.replace("ret;", second), env!("CARGO_PKG_VERSION")),
            "",
        )
        .unwrap_err();
        assert!(
            matches!(&error, BuildError::NoLayoutTable { entry } if entry == "b__2"),
            "{error}"
        );
    }

    #[test]
    fn a_remainder_of_floats_is_refused() {
        let ir = "@text = constant [9 x i8] c\" = frem x\"\ndefine ptx_kernel void @wrap__12ab(ptr %x) {\nstart:\n  %r = frem float %a, %b\n  \
                  %s = frem nnan double %c, %d\n}\n";
        let error = inspect("p", &ptx(), ir).unwrap_err();
        assert!(
            matches!(&error, BuildError::InexactRemainder { kernels } if kernels == &["`wrap`"]),
            "{error}"
        );
        assert!(error.to_string().contains("device_std::accurate::rem"), "{error}");
        assert!(inspect("p", &ptx(), "@text = constant [9 x i8] c\" = frem x\"\n").is_ok());
    }

    #[test]
    fn assembly_outside_functions_is_refused() {
        let error = inspect("p", &ptx(), "module asm \".visible .entry k__1()\"\n").unwrap_err();
        assert!(
            matches!(&error, BuildError::Assembly { crates } if crates == &["`p`"]),
            "{error}"
        );
    }

    #[test]
    fn a_mutable_static_is_refused() {
        let error = inspect("p", &ptx(), "@COUNT = internal global i32 0").unwrap_err();
        assert!(
            matches!(&error, BuildError::MutableStatic { names } if names == &["`COUNT`"]),
            "{error}"
        );
    }

    #[test]
    fn ptx_that_cannot_be_proved_is_refused() {
        let ptx = ptx().replace("ret;", "bar.sync 0, 32;");
        let error = inspect("p", &ptx, "").unwrap_err();
        assert!(matches!(error, BuildError::Refused(_)), "{error}");
    }

    /// As rustc writes `Simd::load_or_default` for an array of three elements.
    #[test]
    fn an_access_to_some_elements_of_a_vector_is_refused() {
        let load = "  %v = call <4 x i32> @llvm.masked.load.v4i32.p0(ptr align 4 %mine, <4 x i1> <i1 true, i1 true, i1 true, i1 false>, <4 x i32> zeroinitializer)";
        let ir = format!("define ptx_kernel void @sum__01(i64 %n) {{\n{load}\n  ret void\n}}\n");
        let error = inspect("k", "", &ir).unwrap_err();
        assert!(
            matches!(&error, BuildError::MaskedVector { functions } if functions == &["`sum`"]),
            "{error}"
        );
        assert_eq!(
            masked_vectors("declare <4 x i32> @llvm.masked.load.v4i32.p0(ptr)\n"),
            [""; 0]
        );
    }

    /// LLVM rounds in the narrower type: `(x as f128).round() as f64` becomes the rounding of `x`.
    #[test]
    fn a_rounding_to_the_nearest_is_for_half_floats_alone() {
        let of = |call: &str| {
            format!("define ptx_kernel void @k__01(i64 %n) {{\n  %v = call {call}\n  ret void\n}}\n")
        };
        for call in [
            "float @llvm.round.f32(float %x)",
            "double @llvm.round.f64(double %x)",
            "fp128 @llvm.round.f128(fp128 %x)",
            "<2 x float> @llvm.round.v2f32(<2 x float> %x)",
        ] {
            let error = inspect("k", "", &of(call)).unwrap_err();
            assert!(
                matches!(&error, BuildError::WideRounding { functions } if functions == &["`k`"]),
                "{error}"
            );
        }
        for call in [
            "half @llvm.round.f16(half %x)",
            "float @llvm.roundeven.f32(float %x)",
        ] {
            assert_eq!(wide_roundings(&of(call)), [""; 0]);
        }
    }
}
