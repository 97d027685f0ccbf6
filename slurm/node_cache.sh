# Sourced before a job (`before_job=". slurm/node_cache.sh /local/scratch"`): it reads data from the node's own disk,
# to which the first job of a node copies every data set that is complete in the shared cache.
if [ -n "${SLURM_JOB_ID:-}" ]; then
  shared="${REPLICATIONS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hessian-replications}"
  own="$1/hessian-replications-$(id -u)"
  mkdir -p "$shared/calibration" "$own"
  (
    flock 9
    cd "$shared"
    for note in datasets/*/*/verified.json; do
      set="${note%/verified.json}"
      if [ -e "$note" ] && [ ! -e "$own/$set" ]; then
        mkdir -p "$own/${set%/*}"
        rm -rf "$own/$set.part"
        cp -a "$set" "$own/$set.part"
        mv "$own/$set.part" "$own/$set"
      fi
    done
    ln -sfn "$shared/calibration" "$own/calibration"
  ) 9> "$own/copy.lock"
  export REPLICATIONS_CACHE="$own"
fi
