//! The program as a user meets it: right on the GPU where there is one with cuBLAS, and on the
//! simulated device, where it says so.
#![forbid(unsafe_code)]

use std::process::Command;

#[test]
fn the_product_is_right_and_the_program_says_what_made_it() {
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .parent()
        .unwrap()
        .with_file_name("examples")
        .join("cublas_gemm");
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    let output = Command::new(&program)
        .output()
        .expect("built beside the tests: cargo build --example cublas_gemm");
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if errors.contains("no libcublas was found") {
        eprintln!("SKIPPED: there is a GPU, but no cuBLAS");
        return;
    }
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("all 30720 elements right"), "{said}");
    let simulated = said.contains("NO GPU: ");
    assert_eq!(simulated, said.contains("its stand-in took"), "{said}");
    assert_eq!(simulated, said.contains("(modelled)"), "{said}");
    assert_eq!(!simulated, said.contains("cublasSgemm took"), "{said}");
}
