# shellcheck shell=bash
# What the scripts share: the repository's place, messages, versions, and finding or installing what is missing.
# Sourced by them, never run. Nothing is installed that is already there, so a second run needs no network.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit
target=${CARGO_TARGET_DIR:-$root/target}
module=$target/release/libflock.so
oldest_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
oldest_redis=7.0
oldest_valkey=7.2
# The server's program from redis-tools or valkey-tools, where only that package was installed.
packaged_server=$root/target/servers/system/redis-server

say() { printf 'flock: %s\n' "$*"; }
die() { printf 'flock: %s\n' "$*" >&2; exit 1; }

# at_least VERSION OLDEST
at_least() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || die "needs sudo, or to be run as root, to install what is missing"
  sudo "$@"
}

# candidate PACKAGE: the version apt would install, without its epoch, or nothing
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*[0-9]\).*/\2/p'; }

# server_version PROGRAM: "redis 7.0.15" or "valkey 8.1.1", or nothing if it is no such server
server_version() { "$1" --version 2>/dev/null | sed -n 's/^\([A-Z][a-z]*\) server v=\([0-9.]*\).*/\L\1\E \2/p'; }

new_enough() { # PROGRAM
  local product version
  read -r product version <<<"$(server_version "$1")"
  case $product in
    redis) at_least "$version" $oldest_redis ;;
    valkey) at_least "$version" $oldest_valkey ;;
    *) false ;;
  esac
}

# find_server: prints the first server that is new enough; FLOCK_SERVER alone counts where it is set
find_server() {
  local program
  for program in ${FLOCK_SERVER:-redis-server valkey-server "$packaged_server"}; do
    program=$(command -v "$program") || continue
    if new_enough "$program"; then echo "$program"; return; fi
  done
  return 1
}

# find_cli SERVER: a client on the PATH (any of them serves), else the one beside that server
find_cli() {
  local client beside
  beside=$(dirname "$1")
  for client in redis-cli valkey-cli "$beside/redis-cli" "$beside/valkey-cli"; do
    if command -v "$client" >/dev/null; then echo "$client"; return; fi
  done
}

# use_cargo: puts a cargo that is new enough on the PATH, if the machine has one
use_cargo() {
  local dir version
  for dir in '' "$HOME/.cargo/bin" $(printf '%s\n' /usr/lib/rust-*/bin | sort -rV); do
    version=$(PATH=${dir:+$dir:}$PATH cargo --version 2>/dev/null | awk '{print $2}') || continue
    if at_least "$version" "$oldest_rust"; then PATH=${dir:+$dir:}$PATH; export PATH; return; fi
  done
  return 1
}

has_libclang() { compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null || ldconfig -p 2>/dev/null | grep -q 'libclang[-.].*so'; }

# first_candidate OLDEST PACKAGE...: the first of these packages that apt has new enough
first_candidate() {
  local oldest=$1 package
  shift
  for package in "$@"; do
    if at_least "$(candidate "$package")" "$oldest"; then echo "$package"; return; fi
  done
  return 1
}

cargo_package() { # the distribution's cargo, or its newer sibling where it keeps one
  local siblings
  mapfile -t siblings < <(apt-cache pkgnames cargo-1. | sort -rV)
  first_candidate "$oldest_rust" cargo cargo-web "${siblings[@]}" ||
    die "needs Rust $oldest_rust or newer, and this system's packages have none: install it with rustup, then run this again"
}

server_package() { # the tools hold the server's program and its client; the server's own package would also start a service
  first_candidate $oldest_redis redis-tools || first_candidate $oldest_valkey valkey-tools ||
    die "needs Redis $oldest_redis or Valkey $oldest_valkey or newer, and this system's packages have neither: say where one is with FLOCK_SERVER=/path/to/redis-server"
}

# link_packaged_server: the program in redis-tools (valkey-tools) is the server when it is called by the server's name
link_packaged_server() {
  local program
  program=$(command -v redis-check-rdb || command -v valkey-check-rdb) || return 0
  mkdir -p "$(dirname "$packaged_server")"
  ln -sfn "$program" "$packaged_server"
}

# Debian keeps PostgreSQL's programs in a folder by version, off the PATH.
has_program() { command -v "$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null; }

# install_missing [PROGRAM=PACKAGE...]: whatever building and running flock needs, and these programs, that the machine lacks
install_missing() {
  local lacks=() packages=() pair
  command -v cc >/dev/null || { lacks+=("a C compiler"); packages+=(gcc); }
  [ -e /usr/include/stdio.h ] || { lacks+=("the C library's headers"); packages+=(libc6-dev); }
  [ -e /etc/ssl/certs/ca-certificates.crt ] || [ ! -e /etc/debian_version ] ||
    { lacks+=("the certificates of authorities"); packages+=(ca-certificates); } # cargo fetches over TLS
  has_libclang || { lacks+=("libclang"); packages+=(libclang-dev); }
  use_cargo || { lacks+=("Rust $oldest_rust or newer, with cargo"); packages+=(CARGO); }
  find_server >/dev/null || {
    [ -z "${FLOCK_SERVER:-}" ] || die "FLOCK_SERVER=$FLOCK_SERVER is no Redis $oldest_redis or Valkey $oldest_valkey or newer"
    lacks+=("Redis $oldest_redis or Valkey $oldest_valkey or newer"); packages+=(SERVER)
  }
  for pair in "$@"; do
    has_program "${pair%%=*}" || { lacks+=("${pair%%=*}"); packages+=("${pair##*=}"); }
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    die "this system has no apt-get, so install these yourself, then run this again: $(printf '%s; ' "${lacks[@]}" | sed 's/; $//')"
  install_packages "${packages[@]}"
}

# install_without_starting PACKAGE...: while a policy-rc.d says 101, packages start none of their services; and
# postgresql, told so, makes no cluster, which would start with the machine
install_without_starting() (
  policy=/usr/sbin/policy-rc.d
  no_cluster=/etc/postgresql-common/createcluster.d/flock.conf
  made=()
  trap '[ ${#made[@]} = 0 ] || as_root rm -f "${made[@]}"' EXIT
  if [ ! -e $policy ]; then
    made+=("$policy")
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
  fi
  if [[ " $* " == *" postgresql "* ]]; then
    made+=("$no_cluster")
    as_root mkdir -p "$(dirname "$no_cluster")"
    echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
)

install_packages() { # PACKAGE..., with CARGO and SERVER for whichever packages bring those
  local package chosen=()
  as_root apt-get -qq update || say "apt-get update failed: goes on with the lists there are"
  for package in "$@"; do
    case $package in
      CARGO) package=$(cargo_package) ;;
      SERVER) package=$(server_package) ;;
    esac
    chosen+=("$package")
  done
  say "installs with apt-get: ${chosen[*]}"
  install_without_starting "${chosen[@]}" || die "the installation failed: see above"
  find_server >/dev/null || link_packaged_server
  use_cargo || die "the cargo that was installed is older than $oldest_rust: install a newer Rust with rustup"
  find_server >/dev/null || die "the server that was installed is too old: say where a newer one is with FLOCK_SERVER=/path/to/redis-server"
}

# build_module: the module as it ships
build_module() {
  say "builds $module"
  cargo build --release --locked
}
