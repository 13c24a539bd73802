//! `cargo xtask pictures`: the README's pictures, which the example `denoise` draws on the
//! simulated device. Results and modelled times are the same on each machine, so `--check`
//! compares.

use std::error::Error;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy;

/// What the example draws, and the names of the pictures in the repository.
const PICTURES: [(&str, &str); 2] = [
    ("before-and-after.png", "docs/denoise-before-after.png"),
    ("timeline.svg", "docs/denoise-timeline.svg"),
];

/// Draws the pictures, and puts them into `docs`.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let drawn = draw()?;
    for (name, path) in PICTURES {
        fs::copy(drawn.join(name), tidy::root().join(path))?;
        println!("{path}");
    }
    Ok(())
}

/// Draws the pictures, and compares them with those in `docs`.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let drawn = draw()?;
    let mut stale = Vec::new();
    for (name, path) in PICTURES {
        let (new, committed) = (drawn.join(name), tidy::root().join(path));
        if !same(&new, &committed).map_err(|error| format!("{path}: {error}"))? {
            stale.push(format!("{path} differs from {}", new.display()));
        }
    }
    if !stale.is_empty() {
        let stale = stale.join("\n  ");
        return Err(format!(
            "pictures are stale; look at the new ones, then `cargo xtask pictures`:\n  {stale}"
        )
        .into());
    }
    println!("{} pictures are what `denoise` draws", PICTURES.len());
    Ok(())
}

/// Runs the example with a filter that takes longer than the disk, and few frames, so that it takes
/// seconds. Returns the folder of its pictures.
fn draw() -> Result<PathBuf, Box<dyn Error>> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tidy::root().join("target"), PathBuf::from);
    let folder = target.join("pictures");
    // Pictures of an earlier run would hide that none was drawn.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut denoise = Command::new(cargo);
    denoise
        .args([
            "run",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "cuda-rt-examples",
        ])
        .args(["--example", "denoise", "--", "--device", "sim"])
        .args(["--radius", "12", "--frames", "12", "--pictures"])
        .arg(&folder)
        .current_dir(tidy::root());
    if !denoise.status()?.success() {
        return Err("the example `denoise` fails".into());
    }
    Ok(folder)
}

/// Whether two pictures are the same: the pixels of PNG, whose encoders differ, and the bytes of
/// SVG.
fn same(a: &Path, b: &Path) -> Result<bool, Box<dyn Error>> {
    if a.extension().is_some_and(|extension| extension == "png") {
        return Ok(pixels(a)? == pixels(b)?);
    }
    Ok(fs::read(a)? == fs::read(b)?)
}

/// Width, height and pixels of a PNG.
fn pixels(path: &Path) -> Result<(u32, u32, Vec<u8>), Box<dyn Error>> {
    let mut reader = png::Decoder::new(BufReader::new(fs::File::open(path)?)).read_info()?;
    let bytes = reader.output_buffer_size().ok_or("the picture is too large")?;
    let mut pixels = vec![0; bytes];
    let frame = reader.next_frame(&mut pixels)?;
    Ok((frame.width, frame.height, pixels))
}
