//! Registers of x86-64, and the state in which a process waits for a message.

use libc::pid_t;

use crate::{Refusal, kernel};

/// `NT_PRSTATUS`: the general registers.
const GENERAL: libc::c_int = 1;
/// `NT_X86_XSTATE`: everything that `xsave` saves, from the x87 control word to protection keys.
const EXTENDED: libc::c_int = 0x202;
/// More than any processor has.
const MAX_EXTENDED: usize = 16 * 1024;
/// `ERESTARTSYS`: a system call that was interrupted and will be made again.
const INTERRUPTED: u64 = -512_i64 as u64;
/// No system call is to be made again.
const NO_CALL: u64 = u64::MAX;
/// Length of the instruction `syscall`.
const CALL_LENGTH: u64 = 2;
/// The instruction `syscall`.
const CALL: [u8; CALL_LENGTH as usize] = [0x0f, 0x05];
/// The descriptor on which a message is waited for.
const SOCKET: u64 = 0;

/// The general registers, in the kernel's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct General([u64; General::COUNT]);

impl General {
    const COUNT: usize = 27;
    const BYTES: usize = General::COUNT * 8;
    // Places of `struct user_regs_struct`.
    const RAX: usize = 10;
    const RSI: usize = 13;
    const RDI: usize = 14;
    const ORIGINAL_RAX: usize = 15;
    const RIP: usize = 16;

    pub(crate) fn of(pid: pid_t) -> Result<Self, Refusal> {
        let mut bytes = [0; General::BYTES];
        let length =
            kernel::get_registers(pid, GENERAL, &mut bytes).map_err(|error| Refusal::Kernel("registers", error))?;
        // A process that switched to 32-bit code has fewer.
        if length != General::BYTES {
            return Err(Refusal::Differs("the processor mode"));
        }
        let (words, _) = bytes.as_chunks::<8>();
        let mut registers = [0; General::COUNT];
        registers.iter_mut().zip(words).for_each(|(register, word)| *register = u64::from_ne_bytes(*word));
        Ok(General(registers))
    }

    pub(crate) fn set(&self, pid: pid_t) -> Result<(), Refusal> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|register| register.to_ne_bytes()).collect();
        kernel::set_registers(pid, GENERAL, &bytes).map_err(|error| Refusal::Kernel("registers", error))
    }

    /// Whether a system call begins here that waits for a message.
    pub(crate) fn is_at_wait(&self) -> bool {
        self.0[General::ORIGINAL_RAX] == libc::SYS_read as u64 && self.0[General::RDI] == SOCKET
    }

    /// The registers of a process that waits for a message, changed so that it begins to wait again. `None` when it does not
    /// wait.
    pub(crate) fn before_wait(&self) -> Option<Self> {
        let waits = self.is_at_wait() && self.0[General::RAX] == INTERRUPTED;
        waits.then(|| self.calling(libc::SYS_read as u64, SOCKET, self.0[General::RSI]).at(self.next() - CALL_LENGTH))
    }

    /// The same, about to make another system call.
    pub(crate) fn calling(&self, number: u64, first: u64, second: u64) -> Self {
        let mut registers = self.0;
        registers[General::RAX] = number;
        registers[General::RDI] = first;
        registers[General::RSI] = second;
        registers[General::ORIGINAL_RAX] = NO_CALL;
        General(registers)
    }

    fn at(mut self, instruction: u64) -> Self {
        self.0[General::RIP] = instruction;
        self
    }

    /// The address of the next instruction.
    pub(crate) fn next(&self) -> u64 {
        self.0[General::RIP]
    }

    /// What a system call that was made from `before` returned; `None` if these are not the registers after it.
    pub(crate) fn returned(&self, before: &General) -> Option<u64> {
        (self.next() == before.next() + CALL_LENGTH).then_some(self.0[General::RAX])
    }
}

/// Whether a system call is made by the code at the beginning of `code`.
pub(crate) fn is_call(code: &[u8]) -> bool {
    code.starts_with(&CALL)
}

/// The state of the floating point and vector units.
#[derive(PartialEq, Eq)]
pub(crate) struct Extended(Vec<u8>);

impl Extended {
    pub(crate) fn of(pid: pid_t) -> Result<Self, Refusal> {
        Extended::read(pid, MAX_EXTENDED)
    }

    fn read(pid: pid_t, room: usize) -> Result<Self, Refusal> {
        let mut bytes = vec![0; room];
        let length = kernel::get_registers(pid, EXTENDED, &mut bytes);
        bytes.truncate(length.map_err(|error| Refusal::Kernel("vector registers", error))?);
        Ok(Extended(bytes))
    }

    /// Whether these are the registers of the process.
    pub(crate) fn are_of(&self, pid: pid_t) -> Result<bool, Refusal> {
        /// Enough to notice that there are more.
        const MORE: usize = 64;
        Ok(Extended::read(pid, self.0.len() + MORE)? == *self)
    }

    pub(crate) fn set(&self, pid: pid_t) -> Result<(), Refusal> {
        kernel::set_registers(pid, EXTENDED, &self.0).map_err(|error| Refusal::Kernel("vector registers", error))
    }
}
