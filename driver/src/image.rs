//! PTX text, and the choice of the module in it that a device loads.

/// PTX that `kernel_module!` embedded in a crate of kernels: one module, or several modules for
/// different architectures, one after another.
///
/// The constructor is `unsafe`, because its caller answers for what the code does
/// (docs/soundness.md, obligation 10). Counterexample: if the fields were public, safe code could
/// make an image with the right entry, the right table and a body that writes anywhere, and launch
/// it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModuleImage {
    /// The crate's name, for messages.
    pub name: &'static str,
    /// The PTX text, without a final NUL.
    pub ptx: &'static str,
}

impl ModuleImage {
    /// The PTX of the kernels of the crate `name`.
    ///
    /// # Safety
    /// Either `ptx` is the output of `kernel-build`: each entry uses its parameters as the layout
    /// table beside it says. Or the kernels that refer to this value are described by hand and
    /// launched only through `Stream::foreign_kernel`, whose caller answers for each launch.
    pub const unsafe fn new(name: &'static str, ptx: &'static str) -> Self {
        Self { name, ptx }
    }

    /// Picks the module for the newest architecture that runs on a device of this compute
    /// capability. Between two of equal age it picks the more specific (`sm_90a` before `sm_90`). A
    /// text without architectures is one module for every device. On failure, the error lists the
    /// architectures in the text.
    pub fn for_capability(&self, capability: (u32, u32)) -> Result<&'static str, String> {
        let modules = modules(self.ptx);
        let targets: Vec<Target> = modules.iter().filter_map(|text| Target::of(text)).collect();
        if targets.len() < modules.len() {
            return Ok(self.ptx);
        }
        let runs = modules
            .iter()
            .zip(&targets)
            .filter(|(_, target)| target.runs_on(capability));
        match runs.max_by_key(|(_, target)| (target.capability, target.compatibility)) {
            Some((text, _)) => Ok(text),
            None => Err(targets
                .iter()
                .map(|target| target.name)
                .collect::<Vec<_>>()
                .join(", ")),
        }
    }
}

/// The modules of a text: each starts at a `.version`. Comments before the first module belong to
/// it; all other comments belong to the module before them.
fn modules(ptx: &'static str) -> Vec<&'static str> {
    let mut starts: Vec<usize> = ptx
        .match_indices(".version")
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || ptx[..*at].ends_with('\n'))
        .collect();
    match starts.first_mut() {
        Some(first) => *first = 0,
        None => return vec![ptx],
    }
    let ends = starts.iter().skip(1).copied().chain([ptx.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &ptx[*start..end])
        .collect()
}

/// The other devices that a module runs on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Compatibility {
    /// All newer devices (`sm_90`).
    SameOrNewer,
    /// Newer devices of the same major number (`sm_100f`).
    Family,
    /// No other device (`sm_90a`).
    Exact,
}

/// The contents of `.target`.
struct Target {
    name: &'static str,
    capability: (u32, u32),
    compatibility: Compatibility,
}

impl Target {
    fn of(module: &'static str) -> Option<Self> {
        let rest = module
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(".target"))?;
        let name = rest.trim_start().split([',', ' ', '\t', '/']).next()?;
        let number = name.strip_prefix("sm_")?;
        let digits = number.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let compatibility = match &number[digits.len()..] {
            "" => Compatibility::SameOrNewer,
            "f" => Compatibility::Family,
            "a" => Compatibility::Exact,
            _ => return None,
        };
        // 90 is 9.0, and 120 is 12.0: the last digit is the minor number.
        let number: u32 = digits.parse().ok()?;
        let capability = (number / 10, number % 10);
        Some(Self {
            name,
            capability,
            compatibility,
        })
    }

    fn runs_on(&self, device: (u32, u32)) -> bool {
        match self.compatibility {
            Compatibility::SameOrNewer => device >= self.capability,
            Compatibility::Family => device.0 == self.capability.0 && device >= self.capability,
            Compatibility::Exact => device == self.capability,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ModuleImage;

    const fn image(ptx: &'static str) -> ModuleImage {
        ModuleImage { name: "tests", ptx }
    }

    const THREE: ModuleImage = image(
        "// a\n.version 7.0\n.target sm_80\nold\n// b\n.version 8.0\n.target sm_90a, debug\nown\n.version 7.8\n.target sm_90\nnew\n",
    );

    fn chosen(image: &ModuleImage, capability: (u32, u32)) -> Option<&'static str> {
        let text = image.for_capability(capability).ok()?;
        text.lines().find(|line| line.len() == 3)
    }

    #[test]
    fn the_newest_that_runs_is_chosen() {
        for (capability, word) in [
            ((8, 0), "old"),
            ((8, 9), "old"),
            ((9, 0), "own"),
            ((10, 0), "new"),
            ((12, 1), "new"),
        ] {
            assert_eq!(chosen(&THREE, capability), Some(word), "{capability:?}");
        }
        assert_eq!(
            THREE.for_capability((7, 5)),
            Err("sm_80, sm_90a, sm_90".to_owned())
        );
    }

    #[test]
    fn each_module_is_whole_and_alone() {
        let old = THREE.for_capability((8, 0)).unwrap();
        assert!(
            old.starts_with("// a\n.version 7.0\n") && old.ends_with("old\n// b\n"),
            "{old}"
        );
        assert_eq!(old.matches(".target").count(), 1);
    }

    #[test]
    fn a_family_runs_on_its_own_only() {
        let family = image(".version 8.8\n.target sm_100f\nfam\n");
        assert_eq!(chosen(&family, (10, 3)), Some("fam"));
        for other in [(9, 0), (11, 0), (12, 0)] {
            assert!(family.for_capability(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_text_that_names_no_architecture_is_one_module() {
        for text in [
            "",
            "// .version\n",
            ".version 7.0\nno target\n",
            ".version 9.9\n.target sm_99x\n",
        ] {
            assert_eq!(image(text).for_capability((8, 0)), Ok(text));
        }
    }
}
