//! Refuses a name that means two things.
//!
//! PTX looks a name up in the innermost scope. LLVM and kernel-build make the names of parameters
//! without a look at the names of statics, which a crate chooses. Counterexample: a parameter of an
//! entry has the name of a static. The entry then takes the parameter's place for the address of
//! the static, and reads other bytes as its values.

use std::collections::HashSet;

use super::error::{Refusal, text};
use super::parse::{Function, Module};

/// Refuses a module that declares a name twice, or a function whose names hide one of the module's.
pub(super) fn check(module: &Module<'_>) -> Result<(), Refusal> {
    let mut outer = HashSet::new();
    let variables = module.variables.iter().map(|v| (v.name, v.line));
    // The parser merges the declarations of one function.
    let functions = module.functions.iter().map(|f| (f.name, 0));
    for (name, line) in variables.chain(functions) {
        if !outer.insert(name) {
            return text(line, format!("`{name}` is declared twice"));
        }
    }
    module
        .functions
        .iter()
        .try_for_each(|function| check_function(function, &outer))
}

fn check_function(function: &Function<'_>, outer: &HashSet<&str>) -> Result<(), Refusal> {
    let mut parameters = HashSet::new();
    for parameter in function.results.iter().chain(&function.parameters) {
        if !parameters.insert(parameter.name) {
            let what = format!("`{}` is declared twice", parameter.name);
            return text(parameter.line, what);
        }
    }
    let body = function.body.iter();
    let inner = body.flat_map(|body| body.names.iter().map(|(name, _)| name.as_str()));
    let labels = function.body.iter().flat_map(|body| body.labels());
    for name in inner.chain(labels).chain(parameters.iter().copied()) {
        if outer.contains(name) {
            let what = format!("in `{}` the name `{name}` hides one of the module", function.name);
            return text(0, what);
        }
    }
    Ok(())
}
