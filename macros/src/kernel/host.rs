//! The host side: a typed launch, and the kernel as plain Rust for the simulated device. Both are
//! safe code; `cuda_rt::__kernel!` holds the `unsafe` code.
//!
//! The output calls methods by their paths. A user's trait could have a method of the same name;
//! rustc would find it first if it takes `self` by value, and ours by reference.

use std::collections::HashSet;

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;

use super::device::{alias, aliases, body, dimensions_type, element_alias, returned_alias, shared_sum, way};
use super::hygiene::local;
use super::instances::{self, GenericLaunch};
use super::parse::{Kernel, Role};
use super::symbol;

pub(crate) fn expand(kernel: &Kernel, package: &str) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let visibility = &kernel.function.vis;
    let outer_attributes = kernel.function.attrs.iter().filter(|attribute| {
        ["doc", "deprecated", "must_use", "allow", "warn", "deny", "expect"]
            .iter()
            .any(|outer| attribute.path().is_ident(outer))
    });
    let outer_attributes = mixed!(#(#outer_attributes)*);
    let mut fresh = Fresh::new(kernel);
    let stream_tag = fresh.ident("S".to_owned());
    let parts = Parts::new(kernel, &stream_tag, &mut fresh);
    // `(a, (b, ()))`
    let passed = nested(&parts.passed);
    let launch = Launch::new(kernel, &stream_tag, &passed, &mut fresh);
    let Launch {
        generics,
        declared: output,
        named: named_output,
        result,
        output: output_name,
        ..
    } = &launch;
    let Parts {
        places,
        declared,
        names,
        grid,
        ..
    } = &parts;
    let parameters = mixed!(#stream_tag: ::cuda_rt::StreamTag, #(#places,)* #generics);
    // Bound by `@`: a name alone would be a pattern of the user's constant of this name (H42). The
    // user's own names stand as the user's function has them.
    let named = mixed! {
        stream: &::cuda_rt::Stream<#stream_tag>,
        grid: ::cuda_rt::#grid,
        #(#declared,)*
        #named_output
    };
    let declared = mixed! {
        stream @ _: &::cuda_rt::Stream<#stream_tag>,
        grid @ _: ::cuda_rt::#grid,
        #(#declared,)*
        #output
    };
    let handle = Handle::declared(kernel);
    let user_body = body(kernel);

    if !kernel.is_generic() {
        let symbol = symbol::symbol(package, kernel, None);
        let handle_type = kernel.handle.as_ref().map(|handle| mixed!(#handle));
        let body = launch_body(
            kernel,
            &parts,
            &launch,
            &name.to_string(),
            &symbol,
            name,
            handle_type,
        );
        return mixed! {
            #handle

            #[cfg(not(target_arch = "nvptx64"))]
            #outer_attributes
            #[allow(clippy::too_many_arguments)]
            #[track_caller]
            #visibility fn #name<#parameters>(#declared) -> #result {
                #user_body
                #body
            }
        };
    }

    let passed = mixed!(stream, grid, #(#names,)* #output_name);
    let generic = GenericLaunch {
        kernel,
        parameters: &parameters,
        declared: &declared,
        named: &named,
        passed: &passed,
        result,
    };
    let instances = kernel.instances.iter().map(|instance| {
        let symbol = symbol::symbol(package, kernel, Some(instance));
        let text = instance.text();
        let text = match text.starts_with('<') {
            true => format!("{}{text}", name.unraw()),
            false => format!("{}<{text}>", name.unraw()),
        };
        let handle_type = kernel.handle.as_ref().map(|handle| {
            let arguments = instance.aliases();
            mixed!(#handle<#(#arguments),*>)
        });
        let called = instances::function_name();
        let body = launch_body(kernel, &parts, &launch, &text, &symbol, &called, handle_type);
        generic.implement(instance, &body)
    });
    let declared_trait = generic.declare_trait();
    let function = generic.function(&outer_attributes);
    mixed! {
        #handle
        #declared_trait
        #function

        #[cfg(not(target_arch = "nvptx64"))]
        const _: () = {
            #user_body
            #(#instances)*
        };
    }
}

/// `(a, (b, ()))`
fn nested(list: &[TokenStream]) -> TokenStream {
    list.iter()
        .rfold(mixed!(()), |rest, first| mixed!((#first, #rest)))
}

/// What a launch does: it describes the kernel, whose simulation calls `function`, and passes the
/// arguments.
fn launch_body(
    kernel: &Kernel,
    parts: &Parts,
    launch: &Launch,
    text: &str,
    symbol: &str,
    function: &Ident,
    handle: Option<TokenStream>,
) -> TokenStream {
    let Parts {
        parameters,
        slices,
        outputs,
        shared,
        values,
        bound,
        given,
        position,
        ..
    } = parts;
    let Launch { call, returned, .. } = launch;
    let aliases = aliases(kernel);
    let bound = nested(bound);
    let shared_sum = shared_sum(kernel);
    let block = kernel.block.map(|block| {
        let [x, y] = block.threads;
        mixed!(#x, #y)
    });
    let symbol = Literal::c_string(&std::ffi::CString::new(symbol).expect("an identifier holds no NUL"));
    let implemented = handle.map(Handle::implemented);
    mixed! {
        #aliases

        const _: () = {
            __CUDA_RT_CHECKED;
            #shared_sum
        };
        ::cuda_rt::__kernel! {
            __CudaRtKernel, #text, #symbol, crate::__CUDA_RT_MODULE, #position,
            block = [#block],
            slices = [#(#slices)*],
            outputs = [#(#outputs)*],
            shared = [#(#shared)*],
            values = [#(#values)*],
            parameters = [#(#parameters)*],
            returned = [#returned],
            checked = __CUDA_RT_CHECKED,
        }
        impl ::cuda_rt::kernel::Simulate for __CudaRtKernel {
            #[inline(always)]
            fn call<'__launch>(
                position @ _: ::cuda_rt::kernel::PositionOf<'__launch, Self>,
                #bound: ::cuda_rt::kernel::ArgumentsOf<'__launch, Self>,
            ) -> ::cuda_rt::kernel::ReturnOf<Self> {
                #function(#(#given),*)
            }
        }
        #implemented
        #call
    }
}

/// The type that stands for the kernel, if the user named one. The type is declared beside the
/// function. Its `impl` is inside the function, because the kernel's description is.
struct Handle;

impl Handle {
    fn declared(kernel: &Kernel) -> TokenStream {
        let visibility = &kernel.function.vis;
        let about = format!(
            "Stands for the kernel `{0}` where a device is asked about it.",
            kernel.function.sig.ident.unraw()
        );
        let (declared, hidden) = match (&kernel.handle, kernel.is_generic()) {
            (Some(_), true) => (instances::declare_handle(kernel), mixed!()),
            // Named in the bounds of the launch, and so as visible as the launch.
            (None, true) => (instances::declare_handle(kernel), mixed!(#[doc(hidden)])),
            (Some(handle), false) => (mixed!(enum #handle {}), mixed!()),
            (None, false) => return mixed!(),
        };
        mixed! {
            #[doc = #about]
            #hidden
            #[allow(dead_code, missing_debug_implementations, non_camel_case_types)]
            #visibility #declared
        }
    }

    /// The `impl` for `handle`, in the launch that has the kernel's description.
    fn implemented(handle: TokenStream) -> TokenStream {
        mixed! {
            #[allow(non_local_definitions)]
            impl ::cuda_rt::kernel::KernelHandle for #handle {
                fn __description() -> ::cuda_rt::kernel::KernelDescription {
                    ::cuda_rt::kernel::KernelDescription::of::<__CudaRtKernel>()
                }
            }
        }
    }
}

/// The parts of the output that depend on whether the kernel returns something.
struct Launch {
    generics: TokenStream,
    declared: TokenStream,
    /// The same parameter where there is no body, and so no pattern.
    named: TokenStream,
    result: TokenStream,
    call: TokenStream,
    returned: TokenStream,
    /// The name of the argument for the output.
    output: TokenStream,
}

impl Launch {
    fn new(kernel: &Kernel, stream_tag: &Ident, passed: &TokenStream, fresh: &mut Fresh) -> Self {
        let Some(of) = &kernel.returned else {
            return Self {
                generics: mixed!(),
                declared: mixed!(),
                named: mixed!(),
                result: mixed!(::cuda_rt::Result<()>),
                call: mixed!(::cuda_rt::kernel::launch::<__CudaRtKernel, #stream_tag>(stream, &grid, #passed)),
                returned: mixed!(),
                output: mixed!(),
            };
        };
        let output = fresh.ident("O".to_owned());
        let element = &of.element;
        let (way, ty) = (way(of), returned_alias(of));
        let bound = mixed!(::cuda_rt::kernel::KernelOutput<#stream_tag, #element>);
        Self {
            generics: mixed!(#output: #bound),
            declared: mixed!(output @ _: #output),
            named: mixed!(output: #output),
            result: mixed!(::cuda_rt::Result<<#output as #bound>::Written, <#output as #bound>::Error>),
            call: mixed! {
                ::cuda_rt::kernel::launch_into::<__CudaRtKernel, #stream_tag, #output>(
                    stream, &grid, #passed, output,
                )
            },
            returned: mixed!(#way #ty),
            output: mixed!(output),
        }
    }
}

/// The parts of the output that come from the parameters.
struct Parts {
    places: Vec<TokenStream>,
    declared: Vec<TokenStream>,
    /// The names of what `declared` declares.
    names: Vec<Ident>,
    /// The arguments, with their types repeated by the names of the kernel's description. rustc
    /// resolves the user's types in the signature and again inside the function; both must mean the
    /// same type.
    passed: Vec<TokenStream>,
    parameters: Vec<TokenStream>,
    slices: Vec<TokenStream>,
    outputs: Vec<TokenStream>,
    shared: Vec<TokenStream>,
    values: Vec<TokenStream>,
    /// The arguments that the simulation gets for one thread or block, and the arguments that it
    /// passes on.
    bound: Vec<TokenStream>,
    given: Vec<Ident>,
    grid: Ident,
    position: TokenStream,
}

impl Parts {
    /// The type of a buffer's place. A generic launch has no name for it, so that a caller who
    /// names the instance does not name every place too: `scale::<f32, _>(…)`.
    fn place(&mut self, kernel: &Kernel, fresh: &mut Fresh, bound: TokenStream) -> TokenStream {
        if kernel.is_generic() {
            return mixed!(impl #bound);
        }
        let place = fresh.ident(format!("P{}", self.places.len()));
        self.places.push(mixed!(#place: #bound));
        mixed!(#place)
    }

    fn new(kernel: &Kernel, stream_tag: &Ident, fresh: &mut Fresh) -> Self {
        let mut parts = Self {
            places: Vec::new(),
            declared: Vec::new(),
            names: Vec::new(),
            passed: Vec::new(),
            parameters: Vec::new(),
            slices: Vec::new(),
            outputs: Vec::new(),
            shared: Vec::new(),
            values: Vec::new(),
            bound: Vec::new(),
            given: Vec::new(),
            grid: format_ident!("Grid1"),
            position: mixed!(),
        };
        for (at, parameter) in kernel.parameters.iter().enumerate() {
            let (name, ty, value) = (&parameter.name, alias(at, parameter), local("value", at));
            let number = Literal::usize_unsuffixed(at);
            if matches!(
                parameter.role,
                Role::Slice { .. } | Role::Output { .. } | Role::Scalar
            ) {
                parts.names.push(name.clone());
            }
            match &parameter.role {
                Role::Slice { element } => {
                    let bound = mixed!(::cuda_rt::kernel::ReadBy<#stream_tag>);
                    let place = parts.place(kernel, fresh, bound);
                    parts
                        .declared
                        .push(mixed!(#name: &::cuda_rt::DeviceSlice<#element, #place>));
                    parts
                        .passed
                        .push(mixed!(::cuda_rt::kernel::ReadArg::<#stream_tag, #ty>::new(#name)));
                    parts.parameters.push(mixed!(Slice #number;));
                    parts.slices.push(mixed!(#number: #ty;));
                }
                Role::Output { element, kind } => {
                    let bound = mixed!(::cuda_rt::kernel::WriteBy<#stream_tag>);
                    let place = parts.place(kernel, fresh, bound);
                    let element_alias = element_alias(at, parameter);
                    parts
                        .declared
                        .push(mixed!(#name: &mut ::cuda_rt::DeviceSlice<#element, #place>));
                    parts
                        .passed
                        .push(mixed!(::cuda_rt::kernel::WriteArg::<#stream_tag, #element_alias>::new(#name)));
                    parts.parameters.push(if kind.is_exclusive() {
                        mixed!(Output #number;)
                    } else {
                        mixed!(AtomicOutput #number;)
                    });
                    parts.outputs.push(mixed!(#number: #ty, #element_alias;));
                }
                Role::Shared => {
                    parts.parameters.push(mixed!(SharedArg #number;));
                    parts.shared.push(mixed!(#number: #ty;));
                }
                Role::Index(dimensions) => {
                    parts.grid = format_ident!("Grid{dimensions}");
                    let threads = format_ident!("Threads{dimensions}");
                    parts.position = mixed!(#threads);
                }
                Role::Block(dimensions) => {
                    parts.grid = format_ident!("Grid{dimensions}");
                    let dimensions = dimensions_type(*dimensions);
                    parts.position = mixed!(Blocks<#dimensions>);
                }
                Role::Scalar => {
                    let written = &parameter.ty;
                    parts.declared.push(mixed!(#name: #written));
                    parts.passed.push(mixed!(#name));
                    parts.parameters.push(mixed!(Value #number;));
                    parts.values.push(mixed!(#number: #ty;));
                }
            }
            if matches!(parameter.role, Role::Index(_) | Role::Block(_)) {
                parts.given.push(Ident::new("position", Span::mixed_site()));
            } else {
                parts.bound.push(mixed!(#value @ _));
                parts.given.push(value);
            }
        }
        parts
    }
}

/// Names for generic parameters that the user's function does not use: the user's function stands
/// inside the function with these parameters.
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
