//! The type checker that the configuration asks for.

use std::sync::Arc;
use std::time::Duration;

use toolgate_config::checked::TypeScript;
use toolgate_engine::Engine;
use toolgate_typecheck::find::find;
use toolgate_typecheck::{Compiler, JailCommand, NoCompiler, TypeChecker};

use toolgate_run::ProgramTypes;

/// The compiler that the configuration wants.
///
/// # Errors
/// If there is none: what is missing.
pub fn find_compiler(wanted: &TypeScript) -> Result<Compiler, NoCompiler> {
    match wanted {
        TypeScript::Off => Err(NoCompiler::Off),
        TypeScript::Found => find(None),
        TypeScript::At(path) => find(Some(path)),
    }
}

/// A checker as the configuration wants it. Nothing is started before it is needed.
///
/// # Errors
/// If there is none: what is missing.
pub fn program_types(wanted: &TypeScript, budget: Duration, engine: &Engine) -> Result<Arc<ProgramTypes>, NoCompiler> {
    let compiler = find_compiler(wanted)?;
    let (program, without) = engine.jail().ok_or(NoCompiler::NoJail)?;
    let jail =
        JailCommand { program: program.to_owned(), name: toolgate_engine::FOLDER_JAIL, without: without.names() };
    let checker = TypeChecker::new(compiler, jail, budget).map_err(|_| NoCompiler::NoJail)?;
    Ok(Arc::new(ProgramTypes::new(checker)))
}
