//! The file of a library that an environment variable names, if the process was started with the
//! variable.

/// Whether the loader would look for the file from the current directory, which the process changes
/// at will.
pub(super) fn is_relative_path(name: &str) -> bool {
    name.contains('/') && !name.starts_with('/')
}

/// The value that an environment variable had when the process was started.
///
/// A library that is loaded runs code. Whoever starts the process may choose it, as with
/// `LD_PRELOAD`; the process itself may not, for `std::env::set_var` is safe before edition 2024.
pub(super) fn initial_variable(name: &str) -> Option<String> {
    // On Linux this file holds the initial environment, and `setenv` leaves it as it is. Elsewhere
    // no variable counts.
    value_of(name, &std::fs::read("/proc/self/environ").ok()?)
}

/// The value of a variable in a list of `NAME=value`, each of which ends in a zero byte.
fn value_of(name: &str, environment: &[u8]) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_from_the_current_directory_is_told_from_others() {
        let names = [
            "lib/libnccl.so.2",
            "./libnccl.so",
            "/lib/libnccl.so.2",
            "libnccl.so.2",
        ];
        assert_eq!(names.map(is_relative_path), [true, true, false, false]);
    }

    #[test]
    fn a_value_is_that_of_the_whole_name() {
        let environment = b"CUDA_RT_NCCL_OLD=a\0CUDA_RT_NCCL=/b=c\0";
        assert_eq!(value_of("CUDA_RT_NCCL", environment).as_deref(), Some("/b=c"));
        assert_eq!(value_of("CUDA_RT", environment), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_variable_that_the_process_sets_itself_is_not_read() {
        const NAME: &str = "CUDA_RT_TEST_OF_THE_INITIAL_ENVIRONMENT";
        // SAFETY: no other thread of this test reads or writes the environment through C.
        unsafe { std::env::set_var(NAME, "set") };
        assert_eq!(std::env::var(NAME).as_deref(), Ok("set"));
        assert_eq!(initial_variable(NAME), None);
    }
}
