#!/usr/bin/env node
// Starts the binary of the platform package that npm installed beside this one.
"use strict";

const { spawn } = require("node:child_process");

const isMusl = () => process.platform === "linux" && !process.report?.getReport().header.glibcVersionRuntime;
const platform = `${process.platform}-${process.arch}-${isMusl() ? "musl" : "gnu"}`;

let program;
try {
  program = require.resolve(`@toolgate/${platform}/toolgate`);
} catch {
  console.error(`toolgate: there is no package for ${platform}, or npm was told to leave out optional dependencies`);
  process.exit(1);
}

const args = process.argv.slice(2);
// In place of this process where Node can do that: signals, terminal and exit code are the program's own then.
if (typeof process.execve === "function") process.execve(program, [program, ...args], process.env);

const child = spawn(program, args, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`toolgate: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code ?? 1);
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});
