# Sourced: a Node.js of our own, since that of many systems is too old for what the tests run. Sets NODE.

install_node() {
    local folder=$1/.check/node24 version=24.21.0 binary
    # npm runs no install scripts here, so the binary is named as a package of its own.
    binary="node-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')"
    NODE="$folder/node_modules/$binary/bin/node"
    [ -x "$NODE" ] || npm install --prefix "$folder" --silent --no-audit --no-fund --ignore-scripts "$binary@$version"
}
