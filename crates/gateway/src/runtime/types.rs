//! The type checker that the configuration asks for.

use std::sync::Arc;

use toolgate_config::checked::{TypeCheck, TypeScript};
use toolgate_engine::Engine;
use toolgate_typecheck::find::find;
use toolgate_typecheck::{JailCommand, NoCompiler, TypeChecker};

use crate::run::ProgramTypes;

/// A checker as the configuration wants it. Nothing is started before it is needed.
///
/// # Errors
/// If there is none: what is missing.
pub(super) fn checker(settings: &TypeCheck, engine: &Engine) -> Result<Arc<ProgramTypes>, NoCompiler> {
    let compiler = match &settings.compiler {
        TypeScript::Off => return Err(NoCompiler::Off),
        TypeScript::Found => find(None)?,
        TypeScript::At(path) => find(Some(path))?,
    };
    let (program, without) = engine.jail().ok_or(NoCompiler::NoJail)?;
    let jail = JailCommand {
        program: program.to_owned(),
        name: toolgate_engine::FOLDER_JAIL,
        without: without.names(),
    };
    let checker = TypeChecker::new(compiler, jail, settings.budget).map_err(|_| NoCompiler::NoJail)?;
    Ok(Arc::new(ProgramTypes::new(checker)))
}
