mod instances;

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use super::{check, expand, parse, symbol};
use crate::message;

#[track_caller]
fn refused(arguments: TokenStream, item: TokenStream, message: &str) {
    match expand(arguments, item) {
        Ok(_) => panic!("accepted, where this was expected: {message}"),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

#[test]
fn a_function_that_cannot_be_a_kernel_is_refused_with_its_message() {
    let none = TokenStream::new;
    refused(
        none(),
        quote!(
            struct S;
        ),
        message::NOT_A_FUNCTION,
    );
    refused(
        none(),
        quote!(
            fn k(&self, i: Index1) {}
        ),
        message::METHOD,
    );
    refused(
        none(),
        quote!(
            fn k<T>(i: Index1, o: PerThread<T>) {}
        ),
        message::GENERIC,
    );
    refused(
        none(),
        quote!(
            fn k<'a>(i: Index1, o: PerThread<u8>) {}
        ),
        message::LIFETIME,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: PerThread<u8>)
            where
                u8: Copy,
            {
            }
        ),
        message::WHERE_CLAUSE,
    );
    refused(
        none(),
        quote!(
            async fn k(i: Index1, o: PerThread<u8>) {}
        ),
        message::ASYNC,
    );
    refused(
        none(),
        quote!(
            const fn k(i: Index1, o: PerThread<u8>) {}
        ),
        message::CONST,
    );
    refused(
        none(),
        quote!(
            unsafe fn k(i: Index1, o: PerThread<u8>) {}
        ),
        message::UNSAFE,
    );
    refused(
        none(),
        quote!(
            extern "C" fn k(i: Index1, o: PerThread<u8>) {}
        ),
        message::ABI,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: PerThread<u8>) -> (u32, u32) {
                (0, 0)
            }
        ),
        message::RETURNS,
    );
    refused(
        none(),
        quote!(
            fn größe(i: Index1, o: PerThread<u8>) {}
        ),
        message::NAME,
    );
}

#[test]
fn parameters_that_cannot_cross_are_refused_with_their_message() {
    let none = TokenStream::new;
    refused(
        none(),
        quote!(
            fn k(i: Index1, (a, b): (u8, u8)) {}
        ),
        message::PATTERN,
    );
    for attribute in [quote!(#[cfg(any())]), quote!(#[cfg_attr(all(), cfg(any()))])] {
        refused(
            none(),
            quote!(
                fn k(i: Index1, #attribute n: u32, o: PerThread<f32>) {}
            ),
            message::PARAMETER_CFG,
        );
    }
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: &mut [f32]) {}
        ),
        message::MUTABLE_SLICE,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: &mut f32) {}
        ),
        message::REFERENCE,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: &f32) {}
        ),
        message::REFERENCE,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: *mut f32) {}
        ),
        message::POINTER,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: &'static [f32]) {}
        ),
        message::LIFETIME,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1<'static>, o: PerThread<f32>) {}
        ),
        message::LIFETIME,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: PerThread) {}
        ),
        message::ELEMENT_TYPE,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, f: impl Fn()) {}
        ),
        message::IMPL_TRAIT,
    );
}

#[test]
fn positions_and_outputs_must_fit_together() {
    let none = TokenStream::new;
    refused(
        none(),
        quote!(
            fn k(o: PerThread<f32>) {}
        ),
        message::NO_POSITION,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, j: Index2, o: PerThread<f32>) {}
        ),
        message::TWO_POSITIONS,
    );
    refused(
        quote!(block = 64),
        quote!(
            fn k(i: Index1, b: Block, o: PerThread<f32>) {}
        ),
        message::TWO_POSITIONS,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, input: &[f32]) {}
        ),
        message::NO_OUTPUT,
    );
    refused(
        none(),
        quote!(
            fn k(b: Block, o: PerThread<f32>) {}
        ),
        message::BLOCK_UNSIZED,
    );
    refused(
        quote!(block = (8, 8)),
        quote!(
            fn k(b: Block, o: PerThread<f32>) {}
        ),
        message::BLOCK_DIMENSIONS,
    );
    refused(
        quote!(block = 64),
        quote!(
            fn k(b: Block2, o: PerThread<f32>) {}
        ),
        message::BLOCK_DIMENSIONS,
    );
    refused(
        quote!(block = (8, 8)),
        quote!(
            fn k(i: Index1, o: PerThread<f32>) {}
        ),
        message::INDEX_DIMENSIONS,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: PerBlock<f32>) {}
        ),
        message::NEEDS_BLOCK,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, t: BlockUninit<f32, 8>, o: PerThread<f32>) {}
        ),
        message::NEEDS_BLOCK,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index1, o: PerThreadColumn<f32, 4>) {}
        ),
        message::NEEDS_PLANE,
    );
    refused(
        none(),
        quote!(
            fn k(i: Index3, o: PerThreadTile<f32, 4, 4>) {}
        ),
        message::NEEDS_PLANE,
    );
}

#[test]
fn arguments_of_the_attribute_are_checked() {
    let item = || {
        quote!(
            fn k(b: Block, o: PerThread<f32>) {}
        )
    };
    refused(quote!(grid = 4), item(), message::UNKNOWN_ARGUMENT);
    refused(quote!("256"), item(), message::UNKNOWN_ARGUMENT);
    refused(quote!(block = 64, block = 64), item(), "`block` is given twice");
    refused(
        quote!(handle = A, block = 64, handle = B),
        item(),
        "`handle` is given twice",
    );
    refused(quote!(block = 64, handle), item(), message::HANDLE_NOT_NAME);
    refused(quote!(block = 64, handle = "A"), item(), message::HANDLE_NOT_NAME);
    refused(
        quote!(block = 64, handle = a::B),
        item(),
        message::UNKNOWN_ARGUMENT,
    );
    refused(quote!(block), item(), message::BLOCK_NOT_LITERAL);
    refused(quote!(block = SIZE), item(), message::BLOCK_NOT_LITERAL);
    refused(quote!(block = 0), item(), message::BLOCK_SIZE);
    refused(quote!(block = 1025), item(), message::BLOCK_SIZE);
    refused(quote!(block = (64, 32)), item(), message::BLOCK_SIZE);
    refused(quote!(block = (65536, 65536)), item(), message::BLOCK_SIZE);
    assert!(expand(quote!(block = 1024,), item()).is_ok());
    assert!(expand(quote!(handle = A, block = 1024), item()).is_ok());
}

/// The handle is of the host alone: PTX that was built before it was added still fits.
#[test]
fn a_handle_does_not_change_the_entrys_name() {
    let item = || {
        quote!(
            fn k(i: Index1, o: PerThread<f32>) {}
        )
    };
    assert_eq!(
        name("package", quote!(), item()),
        name("package", quote!(handle = A), item())
    );
}

fn name(package: &str, arguments: TokenStream, item: TokenStream) -> String {
    names(package, arguments, item).swap_remove(0)
}

/// The names of a kernel's entries: one, or one for each instance.
fn names(package: &str, arguments: TokenStream, item: TokenStream) -> Vec<String> {
    let kernel = parse::parse(arguments, item).unwrap();
    check::check(&kernel).unwrap();
    if kernel.instances.is_empty() {
        return vec![symbol::symbol(package, &kernel, None)];
    }
    let instances = kernel.instances.iter();
    instances
        .map(|instance| symbol::symbol(package, &kernel, Some(instance)))
        .collect()
}

#[test]
fn symbols_tell_signatures_apart() {
    let none = TokenStream::new;
    let base = name(
        "p",
        none(),
        quote!(
            fn k(i: Index1, a: &[f32], o: PerThread<f32>, n: u32) {}
        ),
    );
    assert!(base.starts_with("k__"));
    let others = [
        name(
            "q",
            none(),
            quote!(
                fn k(i: Index1, a: &[f32], o: PerThread<f32>, n: u32) {}
            ),
        ),
        name(
            "p",
            none(),
            quote!(
                fn k(i: Index1, a: &[u32], o: PerThread<f32>, n: u32) {}
            ),
        ),
        name(
            "p",
            none(),
            quote!(
                fn k(i: Index1, a: &[f32], o: PerThread<f32>, n: i32) {}
            ),
        ),
        name(
            "p",
            none(),
            quote!(
                fn k(i: Index1, a: &[f32], o: PerThread<f32>, m: u32) {}
            ),
        ),
        name(
            "p",
            none(),
            quote!(
                fn k(i: Index1, a: &[f32], o: Atomic<f32>, n: u32) {}
            ),
        ),
        name(
            "p",
            none(),
            quote!(
                fn k(i: Index1, a: &[[f32; 2]], o: PerThread<f32>, n: u32) {}
            ),
        ),
        name(
            "p",
            quote!(block = 64),
            quote!(
                fn k(i: Index1, a: &[f32], o: PerThread<f32>, n: u32) {}
            ),
        ),
    ];
    assert!(!others.contains(&base), "{base} {others:?}");
}

#[test]
fn symbols_depend_on_neither_spaces_nor_documentation() {
    let plain = "fn k(i: Index1, a: &[[f32; 2]], o: PerThread<f32>) {}";
    let spaced =
        "/// Words.\n fn k ( i : Index1 , mut a : & [ [ f32 ; 2 ] ] , o : PerThread < f32 > ) { loop {} }";
    let of = |text: &str| name("p", TokenStream::new(), text.parse().unwrap());
    assert_eq!(of(plain), of(spaced));
}

/// The promise behind `forbid(unsafe_code)` in a user's crate. All `unsafe` code comes from macros
/// of `cuda_rt` and `device_std`, which name their own crates. These macros get no token of the
/// user's, except for names.
#[test]
fn no_token_is_unsafe_and_none_of_the_user_goes_where_one_is_added() {
    let item = quote! {
        fn k(
            mut user_block: Block,
            user_tile: BlockUninit<UserTile, { user_n() }>,
            user_in: &[[UserIn; { user_m() }]],
            user_out: PerThread<UserOut>,
            user_counts: Atomic<UserCount>,
            user_scalar: UserScalar,
        ) { user_body() }
    };
    let expanded = expand(quote!(block = 64), item.clone()).unwrap();
    crate::names::assert_ours(&item, &expanded);
    let mut words = Vec::new();
    every_word(expanded.clone(), &mut words);
    assert!(words.contains(&"user_body".to_owned()) && words.contains(&"__entry".to_owned()));
    assert!(!words.contains(&"unsafe".to_owned()), "{expanded}");

    let mut seen = 0;
    macro_arguments(expanded, &mut |tokens| {
        seen += 1;
        let text = tokens.to_string();
        assert!(!text.to_lowercase().contains("user"), "{text}");
    });
    assert_eq!(seen, 2, "one macro for the device and one for the host");
}

fn every_word(tokens: TokenStream, words: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => every_word(group.stream(), words),
            TokenTree::Ident(ident) => words.push(ident.to_string()),
            _ => {}
        }
    }
}

/// Calls `f` with the arguments of each of our macros: `__name! { … }`.
fn macro_arguments(tokens: TokenStream, f: &mut impl FnMut(TokenStream)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        match &tokens[at.saturating_sub(2)..at] {
            [TokenTree::Ident(name), TokenTree::Punct(bang)]
                if bang.as_char() == '!' && name.to_string().starts_with("__") =>
            {
                f(group.stream())
            }
            _ => macro_arguments(group.stream(), f),
        }
    }
}

#[test]
fn generic_parameters_do_not_capture_the_names_of_the_user() {
    let item = quote!(
        fn k(i: Index1, a: &[S], o: PerThread<P0>) {
            S::f()
        }
    );
    let text = expand(TokenStream::new(), item).unwrap().to_string();
    assert!(text.contains("S_ : :: cuda_rt :: StreamTag"), "{text}");
    assert!(
        text.contains("P0_ : :: cuda_rt :: kernel :: ReadBy < S_ >"),
        "{text}"
    );
}

/// `__entry!` makes everything from one list: a group for each parameter, in the order of the
/// function.
#[test]
fn an_entry_is_made_of_one_list_of_its_parameters() {
    let item = quote!(
        fn k(
            mut block: Block,
            tile: BlockUninit<f32, { other::TILE }>,
            input: &[f32],
            by: f32,
            counts: Atomic<u32>,
            o: PerBlock<f32>,
        ) -> u32 {
        }
    );
    let mut entry = String::new();
    macro_arguments(expand(quote!(block = 256), item).unwrap(), &mut |tokens| {
        if entry.is_empty() {
            entry = tokens.to_string();
        }
    });
    let (_, rest) = entry.split_once("parameters = [").unwrap();
    let (list, rest) = rest.split_once(']').unwrap();
    let groups: Vec<String> = list.split(';').map(|group| group.replace(' ', "")).collect();
    assert_eq!(
        groups,
        [
            "shared(value1:__CudaRtParameter1)",
            "slice(value2,len2:__CudaRtParameter2)",
            "scalar(value3:__CudaRtParameter3)",
            "atomic(value4,len4:__CudaRtParameter4)",
            "exclusive(value5,len5:__CudaRtParameter5)",
            "returned(returned,returned_len:Each__CudaRtReturned)",
            "",
        ],
        "{entry}"
    );
    assert_eq!(
        rest.replace(' ', ""),
        ",block=value0:OneD(256u32,1u32),checked=__CUDA_RT_CHECKED,"
    );
}

/// The files of a folder, and of the folders in it.
fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// The committed PTX has an entry for each kernel of its source, under the name that the host asks
/// for. The test needs no nightly compiler, so every machine finds a signature that changed without
/// a rebuild.
#[test]
fn the_committed_ptx_has_the_entries_that_the_host_asks_for() {
    let kernels = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../device-kernels");
    let ptx = std::fs::read_to_string(kernels.join("ptx/device_kernels.ptx")).unwrap();
    let mut expected = Vec::new();
    for file in sources(&kernels.join("src")) {
        let source = syn::parse_file(&std::fs::read_to_string(file).unwrap()).unwrap();
        for item in source.items {
            let syn::Item::Fn(mut function) = item else {
                continue;
            };
            let Some(at) = function.attrs.iter().position(|a| a.path().is_ident("kernel")) else {
                continue;
            };
            let attribute = function.attrs.remove(at);
            let arguments = attribute
                .meta
                .require_list()
                .map(|list| list.tokens.clone())
                .unwrap_or_default();
            expected.extend(names("cuda-handoff-kernels", arguments, quote!(#function)));
        }
    }
    let mut entries: Vec<&str> = ptx
        .lines()
        .filter_map(|line| line.strip_prefix(".visible .entry ")?.strip_suffix('('))
        .collect();
    expected.sort();
    entries.sort();
    assert!(expected.len() >= 8, "{expected:?}");
    assert_eq!(entries, expected, "run `cargo xtask ptx`");
}
