//! Credential stores under kill, without space, and with a real Secret Service.

mod files;
mod keychain;
mod tool;
