//! Entries that a crate makes by calling `__entry!` itself, without `#[kernel]`.
//!
//! The macro is exported for the output of `#[kernel]`, so every crate can call it, and a crate
//! that takes the place of `device_std` can change the call. The tables must say what the entry
//! does.

use kernel_build::{BuildError, Module};

use crate::{compile, package};

/// What a call by hand needs: types with single names, and functions that take them.
const PARTS: &str = "
    type Out<'k> = PerThread<'k, u32>;
    type Large<'k> = PerThread<'k, [u32; 1024]>;
    type Tile<'k> = BlockUninit<'k, u32, 64>;
    type Word = u32;
    type Len = usize;
    const CHECKED: () = ();
    pub fn write(i: Index1, mut out: PerThread<u32>) { if let Some(out) = out.get_mut(i) { *out = 1; } }
    ";

/// A call of `__entry!` for the entry `k`.
fn entry(rest: &str) -> String {
    format!(
        "{PARTS}#[cfg(target_arch = \"nvptx64\")] device_std::__entry! {{ \"k__0123456789abcdef\", {rest}, checked = CHECKED, }}"
    )
}

fn built(name: &str, source: &str) -> Option<Module> {
    let package = package(name, source);
    compile(package.path()).map(|module| module.unwrap())
}

/// The numbers of the entry's table, as they stand in the PTX.
fn table(module: &Module, table: &str) -> String {
    let [entry] = module.entries.as_slice() else {
        panic!("{:?}", module.entries)
    };
    let name = format!("__cuda_rt_{table}_{entry}[");
    let line = module.ptx.lines().find(|line| line.contains(&name));
    let (_, numbers) = line.unwrap().split_once('=').unwrap();
    numbers.to_owned()
}

/// A buffer that the function writes is an output in the tables, whatever a host calls it.
/// Regression: the macro took the rows of the tables from its caller. An entry wrote to a buffer
/// that its row called an input, and the host passed memory that another stream read.
#[test]
fn the_tables_of_an_entry_made_by_hand_are_those_of_its_function() {
    let reads = "#[kernel] fn k(i: Index1, input: &[u32], mut out: PerThread<u32>) {
         if let Some(out) = out.get_mut(i) { *out = input[i.get()]; } }";
    let writes = "#[kernel] fn k(i: Index1, mut a: PerThread<u32>, _b: PerThread<u32>) {
         if let Some(a) = a.get_mut(i) { *a = 0xdead_beef; } }";
    let by_hand =
        "steal(i, a, b), parameters = [exclusive(a, m: Out); exclusive(b, n: Out);], index = i: Index1";
    let by_hand = entry(by_hand)
        + "fn steal(i: Index1, mut a: PerThread<u32>, _: PerThread<u32>) {
               if let Some(a) = a.get_mut(i) { *a = 0xdead_beef; } }";
    let (Some(reads), Some(writes), Some(by_hand)) = (
        built("reads", reads),
        built("writes", writes),
        built("by-hand", &by_hand),
    ) else {
        return;
    };
    for name in ["layout", "parameters"] {
        assert_eq!(table(&by_hand, name), table(&writes, name));
        assert_ne!(table(&by_hand, name), table(&reads, name));
    }
}

/// The rows of arguments in shared memory and of the block follow from what the entry opens.
#[test]
fn the_rows_of_shared_memory_and_of_a_block_made_by_hand_are_the_entrys() {
    let honest = "#[kernel(block = 64)] fn k(mut block: Block, a: BlockUninit<u32, 64>, b: BlockUninit<u32, 64>, mut out: PerThread<u32>) {
         let (a, b) = (a.init(&mut block, |_, at| at as u32), b.init(&mut block, |_, at| at as u32 + 1));
         let (a, b) = (a.view(), b.view());
         block.threads(|t| if let Some(i) = t.index_in_launch() { out.set(i, a.slice(t)[1] + b.slice(t)[2]); }) }";
    let by_hand = entry(
        "k(block, a, b, out), parameters = [shared(a: Tile); shared(b: Tile); exclusive(out, n: Out);],
         block = block: OneD(64, 1)",
    ) + &honest.replace("#[kernel(block = 64)]", "");
    let (Some(honest), Some(by_hand)) = (built("honest", honest), built("by-hand", &by_hand)) else {
        return;
    };
    assert_eq!(table(&by_hand, "layout"), table(&honest, "layout"));
    let body = |module: &Module| {
        let (_, body) = module.ptx.split_once(".visible .entry").unwrap();
        body.replace(&module.entries[0], "k")
    };
    assert_eq!(body(&by_hand), body(&honest));
}

/// The memory for what a function returns may hold nothing before the launch: its row says so.
#[test]
fn the_row_of_what_a_function_made_by_hand_returns_is_the_entrys() {
    let honest = "#[kernel] fn k(i: Index1, input: &[u32]) -> [u32; 2] { [input[i.get()]; 2] }";
    let function = "type Pair = [u32; 2]; fn k(i: Index1, input: &[u32]) -> [u32; 2] { [input[i.get()]; 2] }";
    let by_hand = |way: &str| {
        entry(&format!(
            "k(i, input), parameters = [slice(input, m: Word); returned(pairs, n: {way} Pair);], index = i: Index1"
        )) + function
    };
    let (Some(honest), Some(chunks), Some(elements)) = (
        built("honest", honest),
        built("chunks", &by_hand("EachChunk")),
        built("elements", &by_hand("Each")),
    ) else {
        return;
    };
    assert_eq!(table(&chunks, "layout"), table(&honest, "layout"));
    assert_ne!(table(&elements, "layout"), table(&honest, "layout"));
    assert_eq!(table(&chunks, "parameters"), table(&elements, "parameters"));
}

/// Programs that call the macro with a list that says less than the truth, and words of the error.
#[test]
fn a_call_by_hand_cannot_say_what_is_false() {
    let one = "parameters = [exclusive(out, n: Out);]";
    let named = |name: &str| {
        entry(&format!("write(i, out), {one}, index = i: Index1")).replace("k__0123456789abcdef", name)
    };
    let refused = [
        // The lists of the macro's earlier form: the length of `out` is a scalar. And two roles.
        (
            entry(
                "write(i, v1), (v1: &mut [u32; 0], _l1: usize, v2: usize), slices = [], exclusive = [v1, v2, Out;],
                 atomics = [], shared = [], index = [i, Index1], block = [],
                 layout = [output_layout Out<'static>; scalar_layout usize;],
                 passed = [writes &mut [u32; 0]; value usize; value usize;]",
            ),
            "no rules expected",
        ),
        (
            entry(
                "write(i, v1), parameters = [exclusive(v1, l1: Out) as slice(Word);], index = i: Index1",
            ),
            "no rules expected",
        ),
        // A scalar is the length too.
        (
            entry("write(i, out), parameters = [exclusive(out, n: Out); scalar(n: Len);], index = i: Index1"),
            "error[E0415]",
        ),
        // A constant is the address.
        (
            format!(
                "#[allow(non_upper_case_globals)] const a: &[u32; 0] = &[];
                 fn read(_: Index1, _: &[u32], _: PerThread<u32>) {{}} {}",
                entry("read(i, a, out), parameters = [slice(a, m: Word); exclusive(out, n: Out);], index = i: Index1")
            ),
            "error[E0530]",
        ),
        // The row tells the size of the element that the function writes.
        (
            entry("write(i, out), parameters = [exclusive(out, n: Large);], index = i: Index1"),
            "error[E0308]",
        ),
        // Neither an index nor a block, and both.
        (entry(&format!("none(out), {one}")) + "fn none(_: PerThread<u32>) {}", "error[E0308]"),
        (
            entry(&format!("both(i, b, out), {one}, index = i: Index1, block = b: OneD(64, 1)"))
                + "fn both(_: Index1, _: Block, _: PerThread<u32>) {}",
            "error[E0308]",
        ),
        // One block is two.
        (
            entry(&format!("twice(b, b, out), {one}, block = b: OneD(64, 1)"))
                + "fn twice(_: Block, _: Block, _: PerThread<u32>) {}",
            "error[E0382]",
        ),
        // The function, and what it is given, leave the entry before the value is written.
        (
            entry("return(), parameters = [returned(out, n: Each Word);], index = i: Index1"),
            "error[E0308]",
        ),
        (
            entry("fill(return), parameters = [returned(out, n: Each Word);], index = i: Index1")
                + "fn fill(_: Index1) -> u32 { 1 }",
            "error[E0308]",
        ),
        // The function returns another type than the row tells.
        (
            entry("fill(i), parameters = [returned(out, n: Each Len);], index = i: Index1")
                + "fn fill(_: Index1) -> u32 { 1 }",
            "error[E0308]",
        ),
        // The function gets the memory for what it returns: as a reference, and its length.
        (
            entry("fill(out), parameters = [returned(out, n: Each Word);], index = i: Index1")
                + "fn fill(_: &mut [u32; 0]) -> u32 { 1 }",
            "error[E0308]",
        ),
        (
            entry("fill(n), parameters = [returned(out, n: Each Word);], index = i: Index1")
                + "fn fill(n: usize) -> u32 { n as u32 }",
            "error[E0308]",
        ),
        // The memory of the launch for longer.
        (
            entry(&format!("keep(i, out), {one}, index = i: Index1"))
                + "fn keep(_: Index1, _: PerThread<'static, u32>) {}",
            "must outlive `'static`",
        ),
        // A call with numbers of its own.
        (
            entry(&format!("write(i, out), {one}, index = i: Index1"))
                + "pub fn call(extent: device_std::Extent) { __cuda_rt_entry(&mut [], 1 << 12, extent) }",
            "cannot find function `__cuda_rt_entry`",
        ),
        // The entry's tables.
        (
            entry(&format!("write(i, out), {one}, index = i: Index1"))
                + "#[cfg(target_arch = \"nvptx64\")] pub use crate::__CUDA_RT_LAYOUT as TABLE;",
            "no `__CUDA_RT_LAYOUT` in the root",
        ),
        (
            entry(&format!("write(i, out), {one}, index = i: Index1"))
                + "pub fn words() -> u64 { __CUDA_RT_PARAMETERS[0] }",
            "cannot find value `__CUDA_RT_PARAMETERS`",
        ),
        (named("memcpy"), "an entry is called like its kernel"),
        (named("__cuda_rt_layout_k__0123456789abcdef"), "an entry is called like its kernel"),
        (named("k() { ret; } .visible .entry k__0123456789abcdef"), "an entry is called like its kernel"),
    ];
    for (source, words) in refused {
        let package = package("lies", &source);
        let Some(refused) = compile(package.path()) else {
            return;
        };
        let error = refused.expect_err(&source);
        assert!(
            matches!(&error, BuildError::Compile { diagnostics } if diagnostics.contains(words)),
            "{words}\n{source}\n{error}"
        );
    }
}
