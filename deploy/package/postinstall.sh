#!/bin/sh
# A service that runs is restarted by an upgrade; the first installation starts none.
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  systemctl try-restart sidenote.service || true
fi
