# Sourced: starts the example service on a free port as `$url`; it ends with the script, when its input closes.

start_service() {
  cargo build --quiet --workspace --bins --examples
  coproc service { exec "${CARGO_TARGET_DIR:-target}/debug/examples/service" 127.0.0.1:0; }
  local line
  read -r line <&"${service[0]}"
  url="${line#listening on }"
  if [[ "$url" != http://* ]]; then
    echo "the example service did not start: $line" >&2
    exit 1
  fi
}
