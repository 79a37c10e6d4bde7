# The mounted folder has another name at each start. In the cache, each of these names leads to one folder of this release.
mount=${program%/@PROGRAM@}
names=$PYTHONPYCACHEPREFIX${mount%/*}
release=$PYTHONPYCACHEPREFIX/appimage-@VERSION@-@COMMIT@
if mkdir -p "$release" "$names" 2>/dev/null; then
    for one in "$PYTHONPYCACHEPREFIX"/appimage-*; do
        [ "$one" = "$release" ] || rm -rf "$one"
    done
    for one in "$names"/.mount_*; do
        [ -d "${one#"$PYTHONPYCACHEPREFIX"}" ] || rm -rf "$one"
    done
    [ -d "$names/${mount##*/}" ] && [ ! -L "$names/${mount##*/}" ] || ln -sfn "$release" "$names/${mount##*/}"
fi
