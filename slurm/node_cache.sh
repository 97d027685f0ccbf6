# Sourced before a job (`before_job: ". slurm/node_cache.sh /local/scratch"`): it reads data from the node's own disk,
# to which the first job of a node copies every data set that is complete in the shared cache. Where that fails, as
# on a full disk, it says so and reads the shared cache.
if [ -n "${SLURM_JOB_ID:-}" ]; then
  shared="${REPLICATIONS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hessian-replications}"
  own="$1/hessian-replications-$(id -u)"
  # Every step is chained to the one before: inside a condition `set -e` ends nothing.
  if said="$(
    exec 2>&1
    mkdir -p "$shared/calibration" "$own" && {
      flock 9 && cd "$shared" || exit
      for note in datasets/*/*/verified.json; do
        set="${note%/verified.json}"
        if [ -e "$note" ] && [ ! -e "$own/$set" ]; then
          rm -rf "$own/$set.part" && mkdir -p "$own/${set%/*}" &&
            cp -a "$set" "$own/$set.part" && mv "$own/$set.part" "$own/$set" || { rm -rf "$own/$set.part"; exit 1; }
        fi
      done
      ln -sfn "$shared/calibration" "$own/calibration"
    } 9> "$own/copy.lock"
  )"; then
    export REPLICATIONS_CACHE="$own"
  else
    echo "slurm/node_cache.sh: data are read from $shared, not from $own (${said##*$'\n'})." >&2
  fi
fi
