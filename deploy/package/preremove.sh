#!/bin/sh
# Stops the service when the package is removed, and not when it is upgraded: deb says "remove", rpm 0; apk runs this
# on removal only.
case ${1:-remove} in
remove | 0 | [0-9]*.*)
  if [ -d /run/systemd/system ]; then systemctl disable --now sidenote.service || true; fi
  ;;
esac
