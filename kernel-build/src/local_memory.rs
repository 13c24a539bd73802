//! Local memory of entries: arrays that the compiler could not keep in registers.

use crate::error::BuildError;

/// Up to this many bytes pass: libm keeps three words so that a step is not optimised away.
const SMALL: u64 = 24;

/// Stands for every kernel in [`Kernels::local_memory`](crate::Kernels::local_memory).
const EVERY_KERNEL: &str = "*";

/// Refuses entries that keep arrays in local memory and did not ask for it, and names of no kernel
/// among those that ask. An entry that prints has asked: the values to print go through local
/// memory.
pub(crate) fn refuse(ptx: &str, asked: &[String]) -> Result<(), BuildError> {
    let entries = entries(ptx);
    let has = |name: &str| name == EVERY_KERNEL || entries.iter().any(|entry| entry.kernel == name);
    if let Some(name) = asked.iter().find(|name| !has(name)) {
        let mut kernels: Vec<String> = entries.into_iter().map(|entry| entry.kernel).collect();
        kernels.sort_unstable();
        kernels.dedup();
        return Err(BuildError::NoSuchKernel {
            name: name.clone(),
            kernels,
        });
    }
    let kernels: Vec<(String, u64)> = entries
        .into_iter()
        .filter(|entry| entry.bytes > SMALL && !entry.prints)
        .filter(|entry| {
            !asked
                .iter()
                .any(|name| name == EVERY_KERNEL || *name == entry.kernel)
        })
        .map(|entry| (entry.kernel, entry.bytes))
        .collect();
    if kernels.is_empty() {
        return Ok(());
    }
    Err(BuildError::LocalMemory { kernels })
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// The name of the function, without the hash of the entry's name.
    kernel: String,
    bytes: u64,
    prints: bool,
}

fn entries(ptx: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut in_entry = false;
    for line in ptx.lines() {
        if let Some(rest) = line.strip_prefix(".visible .entry ") {
            let symbol = rest.split(['(', ' ']).next().unwrap_or(rest);
            found.push(Entry {
                kernel: symbol
                    .rsplit_once("__")
                    .map_or(symbol, |(name, _)| name)
                    .to_owned(),
                bytes: 0,
                prints: false,
            });
            in_entry = true;
        } else if line.starts_with('}') {
            in_entry = false;
        }
        let Some(entry) = found.last_mut().filter(|_| in_entry) else {
            continue;
        };
        let words = line.trim_start();
        if words.starts_with(".local ") {
            entry.bytes += bytes_of(words);
        }
        entry.prints |= words.starts_with("call") && words.contains(" vprintf,");
    }
    found
}

/// The size of `.local .align 8 .b8 __local_depot0[40];`. A size that is not understood counts as
/// large.
fn bytes_of(declaration: &str) -> u64 {
    declaration
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.visible .entry blur__42c1af95e4ce23ab(
	.param .u64 p0
)
{
	.local .align 8 .b8 	__local_depot0[512];
	ret;
}
.visible .entry small__42c1af95e4ce23ab()
{
	.local .align 8 .b8 	__local_depot1[24];
	ret;
}
.func called()
{
	.local .align 8 .b8 	__local_depot2[584];
	ret;
}
.visible .entry says__42c1af95e4ce23ab()
{
	.local .align 8 .b8 	__local_depot3[64];
	call.uni (retval0), vprintf, (param0, param1);
	ret;
}
";

    #[test]
    fn an_entry_with_an_array_in_local_memory_is_refused_by_name() {
        let error = refuse(PTX, &[]).unwrap_err();
        let BuildError::LocalMemory { kernels } = &error else {
            panic!("{error}");
        };
        assert_eq!(*kernels, [("blur".to_owned(), 512)]);
        let text = error.to_string();
        assert!(text.contains("`blur` (512 bytes)"), "{text}");
        assert!(text.contains("unroll!"), "{text}");
    }

    /// A wrong name would otherwise stay unnoticed until the kernel that it means is refused.
    #[test]
    fn a_name_of_no_kernel_is_refused() {
        for asked in [&["blurr"][..], &["blur", "called"], &["*", "mod::blur"]] {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            let error = refuse(PTX, &asked).unwrap_err();
            let BuildError::NoSuchKernel { name, kernels } = &error else {
                panic!("{error}");
            };
            assert_eq!(name, asked.last().unwrap());
            assert_eq!(*kernels, ["blur", "says", "small"]);
        }
    }

    #[test]
    fn a_kernel_that_asks_may_have_it() {
        assert!(refuse(PTX, &["small".to_owned()]).is_err());
        assert!(refuse(PTX, &["blur".to_owned()]).is_ok());
        assert!(refuse(PTX, &["*".to_owned()]).is_ok());
    }

    #[test]
    fn a_size_that_is_not_understood_is_refused() {
        let text = PTX.replace("[24]", "[SIZE]");
        assert!(refuse(&text, &["blur".to_owned()]).is_err());
    }
}
