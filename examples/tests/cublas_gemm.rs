//! Runs the program `cublas_gemm` like a user. Its result is right on a GPU with cuBLAS, and on the
//! simulated device, which it names.
#![forbid(unsafe_code)]

use std::process::Command;

#[test]
fn the_product_is_right_and_the_program_names_the_device() {
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
