//! The entry's name: the function's name, and a hash of package and signature. A module built from
//! another signature has no entry of this name. Of a generic kernel, each instance has an entry,
//! and its types and numbers are part of the hash.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;

use super::instance_list::Instance;
use super::parse::Kernel;

/// A version that changes with the way in which parameters are passed.
const ABI_VERSION: &str = "cuda-rt kernel ABI 1";

pub(crate) fn symbol(package: &str, kernel: &Kernel, instance: Option<&Instance>) -> String {
    let name = kernel.function.sig.ident.unraw().to_string();
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    hash.text(ABI_VERSION);
    hash.text(package);
    hash.text(&name);
    for parameter in &kernel.parameters {
        hash.text(&parameter.name.unraw().to_string());
        hash.tokens(parameter.ty.to_token_stream());
    }
    if let Some(returned) = &kernel.returned {
        hash.text("->");
        hash.tokens(returned.ty.to_token_stream());
    }
    let block = kernel.block.map_or([0, 0], |block| block.threads);
    hash.text(&format!("{}x{}", block[0], block[1]));
    if let Some(instance) = instance {
        hash.text("instance");
        for (parameter, argument) in &instance.arguments {
            hash.text(&parameter.unraw().to_string());
            hash.tokens(argument.to_token_stream());
            hash.text(",");
        }
    }
    format!("{name}__{:016x}", hash.0)
}

struct Hash(u64);

impl Hash {
    fn text(&mut self, text: &str) {
        // The length comes first, so that ("ab", "c") and ("a", "bc") differ.
        for byte in (text.len() as u64).to_le_bytes().into_iter().chain(text.bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Hashes each token, and not the printed text: two versions of the compiler may print
    /// different spaces, and they build the host and the device.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    self.text(match group.delimiter() {
                        proc_macro2::Delimiter::Parenthesis => "(",
                        proc_macro2::Delimiter::Brace => "{",
                        proc_macro2::Delimiter::Bracket => "[",
                        // A macro passed a type on; the source has no delimiter here.
                        proc_macro2::Delimiter::None => {
                            self.tokens(group.stream());
                            continue;
                        }
                    });
                    self.tokens(group.stream());
                    self.text(")");
                }
                TokenTree::Ident(ident) => self.text(&ident.to_string()),
                TokenTree::Punct(punct) => self.text(punct.as_char().encode_utf8(&mut [0; 4])),
                TokenTree::Literal(literal) => self.text(&literal.to_string()),
            }
        }
    }
}
