//! Compiles the user's text for a worker, and maps positions in the compiled code back to the text.

use toolgate_plan::{Form, Program, SyntaxFault, Violation};
use toolgate_wire::{Code, Failure, Limits, Position, Profile};

/// A program that may be sent to a worker.
pub(crate) struct Compiled {
    program: Program,
    profile: Profile,
}

impl Compiled {
    /// Checks length and syntax, and the guard of a computation; erases types.
    pub(crate) fn new(
        source: &str,
        compiled: Option<Program>,
        profile: Profile,
        limits: &Limits,
    ) -> Result<Self, Failure> {
        check_length(source, limits)?;
        if let Some(program) = compiled {
            return Ok(Compiled { program, profile });
        }
        let form = match profile {
            Profile::Compute => {
                toolgate_plan::validate_code(source).map_err(refused)?;
                Form::Compute
            }
            Profile::Chain | Profile::Snippet => Form::Script,
        };
        let program = toolgate_plan::compile(source, form).map_err(not_a_program)?;
        Ok(Compiled { program, profile })
    }

    /// The profile that it was compiled for.
    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    /// The text as the user sent it.
    pub(crate) fn text(&self) -> &str {
        self.program.source()
    }

    pub(crate) fn js(&self) -> &str {
        &self.program.js
    }

    /// The global names that it uses.
    pub(crate) fn globals(&self) -> &[String] {
        &self.program.globals
    }

    /// The position in the user's text of a position in the compiled code.
    pub(crate) fn position(&self, line: u32, column: u32) -> Option<Position> {
        self.program.source_position(line, column)
    }
}

fn check_length(source: &str, limits: &Limits) -> Result<(), Failure> {
    let length = source.chars().count() as u64;
    if length <= limits.code {
        return Ok(());
    }
    let message = format!("the code has {length} characters; at most {} are taken", limits.code);
    Err(Failure::new(Code::InvalidCode, message))
}

fn refused(violation: Violation) -> Failure {
    match violation {
        Violation::Syntax(fault) => not_a_program(fault),
        other => Failure { position: other.position(), ..Failure::new(Code::InvalidCode, other.to_string()) },
    }
}

fn not_a_program(fault: SyntaxFault) -> Failure {
    Failure { position: fault.position, hint: fault.hint, ..Failure::new(Code::Syntax, fault.message) }
}
