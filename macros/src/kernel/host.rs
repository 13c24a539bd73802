//! The host side: a typed launch, and the kernel as plain Rust that simulates it.
//!
//! Methods are called by their paths: a user's trait could have a method of the same name, which is found first where it takes
//! `self` by value and ours by reference.

use std::collections::HashSet;

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::spanned::Spanned;

use super::device::{
    alias, aliases, block_literal, body, dimensions_type, element_alias, layout, local, shared_bytes,
};
use super::parse::{Kernel, Role};

pub(crate) fn expand(kernel: &Kernel, symbol: &str) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let visibility = &kernel.function.vis;
    let outer_attributes = kernel.function.attrs.iter().filter(|attribute| {
        ["doc", "deprecated", "must_use", "allow", "warn", "deny", "expect"]
            .iter()
            .any(|outer| attribute.path().is_ident(outer))
    });
    let mut fresh = Fresh::new(kernel);
    let stream_tag = fresh.ident("S".to_owned());
    let parts = Parts::new(kernel, &stream_tag, &mut fresh);
    let Parts {
        places,
        declared,
        addresses,
        pointers,
        described,
        shared,
        grid,
        ..
    } = &parts;

    let body = body(kernel);
    let aliases = aliases(kernel);
    let layout = layout(kernel);
    let simulate = simulate(kernel, &parts);
    let bytes = shared_bytes(shared);
    let fixed_block = match kernel.block {
        Some(block) => {
            let [x, y] = block.threads;
            mixed!(::core::option::Option::Some([#x, #y, 1]))
        }
        None => mixed!(::core::option::Option::None),
    };
    let symbol = Literal::c_string(&std::ffi::CString::new(symbol).expect("an identifier holds no NUL"));
    let text = name.to_string();

    mixed! {
        #[cfg(not(target_arch = "nvptx64"))]
        #(#outer_attributes)*
        #[allow(clippy::too_many_arguments)]
        #[track_caller]
        #visibility fn #name<#stream_tag: ::cuda_rt::StreamTag, #(#places),*>(
            stream: &::cuda_rt::Stream<#stream_tag>,
            grid: ::cuda_rt::#grid,
            #(#declared),*
        ) -> ::cuda_rt::Result<()> {
            #aliases
            #body
            #simulate

            const __CUDA_RT_SHARED_BYTES: usize = #bytes;
            const _: () = assert!(
                __CUDA_RT_SHARED_BYTES <= ::device_std::rt::MAX_SHARED_BYTES,
                "a block has 48 KiB of shared memory"
            );
            static __CUDA_RT_KERNEL: ::cuda_rt::kernel::Kernel = ::cuda_rt::kernel::Kernel {
                name: ::core::concat!(::core::module_path!(), "::", #text),
                symbol: #symbol,
                file: ::core::file!(),
                line: ::core::line!(),
                module: &crate::__CUDA_RT_MODULE,
                parameters: &[#(#described,)* ::cuda_rt::kernel::Parameter {
                    size_bytes: ::core::mem::size_of::<::device_std::Extent>(),
                    align_bytes: ::core::mem::align_of::<::device_std::Extent>(),
                    kind: ::cuda_rt::kernel::ParameterKind::Extent,
                }],
                layout: &[#(#layout),*],
                simulate: __cuda_rt_simulate,
                cache: ::cuda_rt::kernel::KernelCache::new(),
            };

            let shape = ::cuda_rt::#grid::__shape(&grid, #fixed_block, __CUDA_RT_SHARED_BYTES)?;
            let extent = shape.extent;
            #(#addresses)*
            let parameters = [#(#pointers,)* (&raw const extent).cast::<::core::ffi::c_void>()];
            // The parameters are those of the kernel, made from the same signature; each buffer's place is this stream's.
            unsafe { ::cuda_rt::Stream::__launch(stream, &__CUDA_RT_KERNEL, &shape, &parameters) }
        }
    }
}

/// What each parameter contributes.
struct Parts {
    places: Vec<TokenStream>,
    declared: Vec<TokenStream>,
    /// Addresses and lengths, of arguments that are given their types once more, by the names that the simulation and the layouts
    /// use: what the user wrote is resolved in the signature and again inside the function, and must mean one type in both.
    addresses: Vec<TokenStream>,
    pointers: Vec<TokenStream>,
    described: Vec<TokenStream>,
    read_back: Vec<TokenStream>,
    passed: Vec<TokenStream>,
    shared: Vec<Ident>,
    grid: Ident,
    /// The function that runs all threads or blocks of a launch, and what it hands to each.
    run: (TokenStream, TokenStream),
}

impl Parts {
    fn new(kernel: &Kernel, stream_tag: &Ident, fresh: &mut Fresh) -> Self {
        let mut parts = Self {
            places: Vec::new(),
            declared: Vec::new(),
            addresses: Vec::new(),
            pointers: Vec::new(),
            described: Vec::new(),
            read_back: Vec::new(),
            passed: Vec::new(),
            shared: Vec::new(),
            grid: format_ident!("Grid1"),
            run: (mixed!(), mixed!()),
        };
        for (at, parameter) in kernel.parameters.iter().enumerate() {
            let (name, mut ty) = (&parameter.name, alias(at));
            // Where rustc points when the type cannot cross.
            ty.set_span(parameter.ty.span().resolved_at(Span::mixed_site()));
            let (value, len, slot) = (local("value", at), local("len", at), parts.pointers.len());
            match &parameter.role {
                Role::Slice { element } => {
                    let place = fresh.ident(format!("P{}", parts.places.len()));
                    parts
                        .places
                        .push(mixed!(#place: ::cuda_rt::kernel::ReadBy<#stream_tag>));
                    parts
                        .declared
                        .push(mixed!(#name: &::cuda_rt::DeviceSlice<#element, #place>));
                    parts
                        .addresses
                        .push(mixed!(let #name: &::cuda_rt::DeviceSlice<#ty, _> = #name;));
                    parts.buffer(
                        name,
                        at,
                        &mixed!(Read { element_bytes: ::core::mem::size_of::<#ty>() }),
                    );
                    parts.read_back.push(mixed! {
                        let #value = unsafe { ::device_std::rt::slice::<#ty>(parameters, #slot) };
                    });
                    parts.passed.push(mixed!(#value));
                }
                Role::Output { element, .. } => {
                    let place = fresh.ident(format!("P{}", parts.places.len()));
                    let element_alias = element_alias(at);
                    parts
                        .places
                        .push(mixed!(#place: ::cuda_rt::kernel::WriteBy<#stream_tag>));
                    parts
                        .declared
                        .push(mixed!(#name: &mut ::cuda_rt::DeviceSlice<#element, #place>));
                    parts
                        .addresses
                        .push(mixed!(let #name: &mut ::cuda_rt::DeviceSlice<#element_alias, _> = #name;));
                    parts.buffer(
                        name,
                        at,
                        &mixed!(Write { element_bytes: ::core::mem::size_of::<#element_alias>() }),
                    );
                    parts.read_back.push(mixed! {
                        let (#value, #len) = unsafe { ::device_std::rt::output::<#element_alias>(parameters, #slot) };
                    });
                    parts.passed.push(mixed! {
                        unsafe { <#ty<'_> as ::device_std::rt::OutputArgument>::new(#value, #len) }
                    });
                }
                Role::Shared => {
                    let offset = shared_bytes(&parts.shared);
                    parts.passed.push(mixed! {
                        unsafe { ::device_std::rt::SharedMemory::argument::<#ty<'_>>(shared, const { #offset }) }
                    });
                    parts.shared.push(ty);
                }
                Role::Index(dimensions) => {
                    parts.grid = format_ident!("Grid{dimensions}");
                    let each = format_ident!("each_index{dimensions}");
                    parts.run = (mixed!(::device_std::rt::#each(&launch)), mixed!(index));
                    parts.passed.push(mixed!(index));
                }
                Role::Block(dimensions) => {
                    parts.grid = format_ident!("Grid{dimensions}");
                    parts.run = (mixed!(::device_std::rt::each_block(&launch)), mixed!(at));
                    let (dimensions, block) = (dimensions_type(*dimensions), block_literal(kernel));
                    parts.passed.push(mixed! {
                        unsafe { ::device_std::rt::block::<#dimensions>(at, #block, [shape.grid[0], shape.grid[1]], extent) }
                    });
                }
                Role::Scalar => {
                    let written = &parameter.ty;
                    parts.declared.push(mixed!(#name: #written));
                    parts.addresses.push(mixed!(let #name: #ty = #name;));
                    parts
                        .pointers
                        .push(mixed!((&raw const #name).cast::<::core::ffi::c_void>()));
                    parts.described.push(mixed!(::cuda_rt::kernel::Parameter {
                        size_bytes: ::core::mem::size_of::<#ty>(),
                        align_bytes: ::core::mem::align_of::<#ty>(),
                        kind: ::cuda_rt::kernel::ParameterKind::Scalar,
                    }));
                    parts.read_back.push(mixed! {
                        let #value = unsafe { ::device_std::rt::scalar::<#ty>(parameters, #slot) };
                    });
                    parts.passed.push(mixed!(#value));
                }
            }
        }
        parts
    }

    /// An address and a length.
    fn buffer(&mut self, name: &Ident, at: usize, kind: &TokenStream) {
        let (address, len) = (local("address", at), local("len", at));
        self.addresses.push(mixed!(let (#address, #len): (u64, u64) = (
                ::cuda_rt::DeviceSlice::address(#name).0,
                ::cuda_rt::DeviceSlice::len(#name) as u64,
            );));
        for value in [&address, &len] {
            self.pointers
                .push(mixed!((&raw const #value).cast::<::core::ffi::c_void>()));
        }
        for kind in [kind, &mixed!(Length)] {
            self.described.push(mixed!(::cuda_rt::kernel::Parameter {
                size_bytes: 8,
                align_bytes: 8,
                kind: ::cuda_rt::kernel::ParameterKind::#kind,
            }));
        }
    }
}

fn simulate(kernel: &Kernel, parts: &Parts) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let Parts {
        read_back,
        passed,
        run: (each, given),
        shared,
        ..
    } = parts;
    let extent_slot = parts.pointers.len();
    let memory = if shared.is_empty() {
        mixed!()
    } else {
        mixed! {
            let mut memory = ::device_std::rt::SharedMemory::new(__CUDA_RT_SHARED_BYTES);
            let shared = ::device_std::rt::SharedMemory::start(&mut memory);
        }
    };
    // `each(&launch)` becomes `each(&launch, |index| …)`.
    let mut each: Vec<TokenTree> = each.clone().into_iter().collect();
    let Some(TokenTree::Group(arguments)) = each.pop() else {
        unreachable!("a call ends in its arguments")
    };
    let arguments = arguments.stream();
    let each: TokenStream = each.into_iter().collect();
    mixed! {
        #[allow(unused_variables)]
        unsafe fn __cuda_rt_simulate(
            shape: &::cuda_rt::kernel::LaunchShape,
            parameters: *const *const ::core::ffi::c_void,
        ) {
            let launch = unsafe { ::device_std::rt::launch(parameters, #extent_slot, shape.grid) };
            let extent = ::device_std::rt::SimulatedLaunch::extent(&launch);
            #(#read_back)*
            #memory
            #each(#arguments, |#given| #name(#(#passed),*));
        }
    }
}

/// Names for generic parameters that the user's function does not mention: it stands inside the function that has them.
struct Fresh(HashSet<String>);

impl Fresh {
    fn new(kernel: &Kernel) -> Self {
        let mut used = HashSet::new();
        collect(kernel.function.to_token_stream(), &mut used);
        Self(used)
    }

    fn ident(&mut self, mut name: String) -> Ident {
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        Ident::new(&name, Span::mixed_site())
    }
}

fn collect(tokens: TokenStream, used: &mut HashSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                used.insert(ident.to_string());
            }
            TokenTree::Group(group) => collect(group.stream(), used),
            _ => {}
        }
    }
}
