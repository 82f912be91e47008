#!/bin/sh
# Run at the end of a build step that installs Debian packages: removes what they leave behind, and above all what holds
# the time of the build, so that two builds give the same files.
set -eu
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache \
  /var/lib/dpkg/*-old /tmp/* /var/tmp/*
