//! The messages of these macros. Each message is one sentence, and says what to write instead.

use proc_macro2::{Ident, TokenStream, TokenTree};

/// The crate with which a macro's output begins its paths.
pub(crate) const CUDA_RT: &str = "cuda_rt";
/// As [`CUDA_RT`], for the macros of kernels.
pub(crate) const DEVICE_STD: &str = "device_std";

/// `compile_error!` with the message, at its place.
///
/// `syn` calls it as `::core::compile_error!`. There `core` may be a crate of the user's, whose
/// `compile_error!` does nothing, so that a refused loop would silently be gone (H42). The path
/// begins with `ours` instead, which has a `__private::core`.
pub(crate) fn refusal(error: syn::Error, ours: &str) -> TokenStream {
    let mut refused = TokenStream::new();
    for token in error.into_compile_error() {
        match token {
            TokenTree::Ident(core) if core == "core" => {
                let [ours, private] = [ours, "__private"].map(|name| Ident::new(name, core.span()));
                refused.extend(quote::quote_spanned!(core.span()=> #ours::#private::#core));
            }
            token => refused.extend([token]),
        }
    }
    refused
}

pub(crate) const NOT_A_FUNCTION: &str = "`#[kernel]` goes on a function";
pub(crate) const UNKNOWN_ARGUMENT: &str = "`#[kernel]` takes the threads of a block, `block = 256` or `block = (32, 8)`, a name for the type that stands for the kernel, `handle = Scale`, and the instances of a generic kernel, `instances = [f32, f64]`";
pub(crate) const HANDLE_NOT_NAME: &str = "the handle of a kernel is the name of a new type: `handle = Scale`, for `gpu.kernel_attributes::<Scale>()`";
pub(crate) const BLOCK_NOT_LITERAL: &str =
    "the threads of a block are written as numbers: `block = 256` or `block = (32, 8)`";
pub(crate) const BLOCK_SIZE: &str = "a block has 1 to 1024 threads";

pub(crate) const METHOD: &str = "a kernel is a free function: a GPU has no `self`";
pub(crate) const GENERIC: &str = "a generic kernel becomes one entry of the PTX for each instance: list them, `#[kernel(instances = [f32, f64])]`, or `[<f32, 4>, <f64, 8>]` for two parameters";
pub(crate) const GENERIC_DEFAULT: &str =
    "a kernel's parameters have no defaults: its instances are listed, `#[kernel(instances = [f32, f64])]`";
pub(crate) const GENERIC_PROJECTION: &str = "name the trait, `<T as Trait>::Output`: each instance of a kernel has its signature with its own type in the place of `T`";
pub(crate) const WHERE_CLAUSE: &str =
    "a kernel without generic parameters has nothing to bound: remove the `where` clause";
pub(crate) const INSTANCES_NOT_LIST: &str = "the instances of a generic kernel are a list: `instances = [f32, f64]`, or `[<f32, 4>, <f64, 8>]` for two parameters";
pub(crate) const INSTANCES_NOT_GENERIC: &str =
    "only a generic kernel has instances: add a parameter, `fn scale<T: Element>(…)`, or remove `instances`";
pub(crate) const INSTANCE_TWICE: &str = "this instance is listed twice";
pub(crate) const INSTANCE_TYPE: &str = "this parameter of the kernel is a type";
pub(crate) const INSTANCE_CONSTANT: &str =
    "this parameter of the kernel is a constant: write a number, a name or `{ expression }`";
pub(crate) const ASYNC: &str = "a kernel is not `async`: its launch already returns before the kernel ends";
pub(crate) const CONST: &str = "a kernel is not `const`: it runs on a GPU";
pub(crate) const UNSAFE: &str = "a kernel is a safe function: its launch checks all conditions that it needs";
pub(crate) const ABI: &str = "a kernel has no ABI of its own: `#[kernel]` makes the entry";
pub(crate) const VARIADIC: &str = "a kernel has a fixed number of parameters";
pub(crate) const RETURNS: &str = "a kernel returns the element that its thread or block writes, `f32`, or several in a row, `[f32; 4]`: write other results through `PerThread<T>`, `PerBlock<T>` or `Atomic<T>`";
pub(crate) const PRIVATE_NEEDS_BLOCK: &str =
    "a `Private` holds the values of a block's threads: take a `Block`, or return the element of this thread";
pub(crate) const NAME: &str = "a kernel's name is written in ASCII, as the names of PTX entries are";

pub(crate) const PATTERN: &str = "a kernel's parameters are plain names: take values apart in the body";
pub(crate) const PARAMETER_CFG: &str = "a kernel has the same parameters in each build, on the host and for a GPU: write two kernels, with `#[cfg(..)]` on each";
pub(crate) const MUTABLE_SLICE: &str = "a kernel writes through `PerThread<T>`, `PerBlock<T>` or `Atomic<T>`: through `&mut [T]` two threads could write one element";
pub(crate) const REFERENCE: &str = "a kernel reads through `&[T]`, and takes single values by value";
pub(crate) const POINTER: &str =
    "a kernel reads through `&[T]` and writes through `PerThread<T>`: pointers do not cross to the device";
pub(crate) const LIFETIME: &str = "remove the lifetime: `#[kernel]` inserts the lifetime of the launch";
pub(crate) const ELEMENT_TYPE: &str = "the element type is missing: write `PerThread<f32>`";
pub(crate) const IMPL_TRAIT: &str =
    "a kernel's parameters have one type each, because the kernel becomes one entry of the PTX";

pub(crate) const NO_POSITION: &str =
    "a kernel takes one index (`Index1`, `Index2`, `Index3`) or one block (`Block`, `Block2`)";
pub(crate) const TWO_POSITIONS: &str =
    "a kernel takes one index or block only: with two kinds of index, two threads could reach one element";
pub(crate) const NO_OUTPUT: &str = "a kernel without an output does nothing: return an element, or add a `PerThread<T>`, `PerBlock<T>` or `Atomic<T>`";
pub(crate) const BLOCK_UNSIZED: &str = "the number of threads of a block is fixed when the kernel is compiled: write `#[kernel(block = 256)]`, or `#[kernel(block = (32, 8))]` for `Block2`";
pub(crate) const BLOCK_DIMENSIONS: &str =
    "`Block` goes with `block = 256`, and `Block2` with `block = (32, 8)`";
pub(crate) const INDEX_DIMENSIONS: &str =
    "`Index1` goes with `block = 256`: threads along a second axis would share an index";
pub(crate) const NEEDS_BLOCK: &str = "`PerBlock`, `PerRow`, `PerTile`, `LookBack` and `BlockUninit` need a block: take a `Block` instead of an index";
pub(crate) const TWO_LOOK_BACKS: &str = "H32: a kernel has one `LookBack` at most: by two, two blocks would have tiles of one number, and write one tile";
pub(crate) const NEEDS_PLANE: &str =
    "`PerThreadColumn` and `PerThreadTile` need two dimensions: take an `Index2` or a `Block2`";

pub(crate) const ELEMENT_NOT_STRUCT: &str =
    "`Element` is derived for structs: not every bit pattern is a value of an enum or union";
pub(crate) const ELEMENT_REPR: &str = "an element has one layout on host and device: add `#[repr(C)]`";
pub(crate) const ELEMENT_LIFETIME: &str =
    "an element cannot borrow: its bytes are copied to the device, and live longer than the original";
pub(crate) const ELEMENT_EMPTY: &str = "an element has a size: add a field";

pub(crate) fn argument_twice(name: &Ident) -> String {
    format!("`{name}` is given twice")
}

pub(crate) fn instance_arguments(expected: usize) -> String {
    match expected {
        1 => "the kernel has one generic parameter: give one type or number for each instance".to_owned(),
        _ => format!(
            "the kernel has {expected} generic parameters: give as many for each instance, `<f32, 4>`"
        ),
    }
}

pub(crate) fn scalar_of_no_size(name: &Ident) -> String {
    format!(
        "H31: the parameter `{name}` has no size, so the entry in the PTX has no parameter for it: remove it, or give its type a field"
    )
}

pub(crate) fn scalar_too_aligned(name: &Ident) -> String {
    format!(
        "H31: the parameter `{name}` is aligned to more than 16 bytes: pass it in a buffer, as an element of `&[T]`"
    )
}

pub(crate) fn element_of_no_size(name: &Ident) -> String {
    format!(
        "H31: the elements of `{name}` have no size, but device memory holds bytes: remove the parameter, or give its element type a field"
    )
}

pub(crate) const RETURNED_OF_NO_SIZE: &str = "H31: what this kernel returns has no size, but device memory holds bytes: give it a field, or an element";

pub(crate) fn output_by_another_name(name: &Ident) -> String {
    format!(
        "H32: the type of `{name}` has the name of another output of `device_std`: give the type alias another name"
    )
}

pub(crate) fn shared_too_large(name: &Ident) -> String {
    format!(
        "H32: `{name}` does not fit a block's shared memory, which has at most 227 KiB, or its elements are aligned to more than 16 bytes"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_no_crate_of_the_users() {
        let mut error = syn::Error::new(proc_macro2::Span::call_site(), "the core of it");
        error.combine(syn::Error::new(proc_macro2::Span::call_site(), "and more"));
        let expected = quote::quote! {
            ::device_std::__private::core::compile_error! { "the core of it" }
            ::device_std::__private::core::compile_error! { "and more" }
        };
        assert_eq!(refusal(error, DEVICE_STD).to_string(), expected.to_string());
    }
}
