#!/bin/bash
# Runs as the first process of a host's new namespaces and ends as its init.
# Environment: NAME, ROOT (the lower layer), DISK (the host's folder), SOURCE (the repository),
# MACHINE (shared folder), HOSTS (for /etc/hosts), HIERARCHIES (cgroup v1; none: v2), SYSTEMD (if
# that is the init).
# Arguments: read-only image stores, NAME=PATH each.
set -eu
hostname "$NAME"
mount --make-rprivate /
mkdir -p "$DISK"/{upper,work,root,containers,docker,spotrun,src,src-work}
mount -t overlay lab -o "lowerdir=$ROOT,upperdir=$DISK/upper,workdir=$DISK/work" "$DISK/root"
cd "$DISK/root"
mkdir -p old run tmp var/lib/{containers,docker,spotrun}
for name in containers docker spotrun; do mount --bind "$DISK/$name" "var/lib/$name"; done
mount -t overlay src -o "lowerdir=$SOURCE,upperdir=$DISK/src,workdir=$DISK/src-work" opt/spotrun/src
mount --bind "$MACHINE" mnt/machine
stores=
for store in "$@"; do
    place=var/lib/lab-images/${store%%=*}
    mkdir -p "$place"
    mount --bind "${store#*=}" "$place"
    mount -o remount,bind,ro "$place"
    stores+="\"/$place\", "
done
cat >etc/containers/storage.conf <<END
[storage]
driver = "overlay"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
[storage.options]
additionalimagestores = [$stores]
END
echo "$HOSTS" >etc/hosts

mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty fuse net/tun; do
    [ -e "/dev/$node" ] || continue
    mkdir -p "$(dirname "dev/$node")"
    touch "dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for fd in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${fd%%:*}" "dev/${fd##*:}"; done

if [ -z "$HIERARCHIES" ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    for name in $(<sys/fs/cgroup/cgroup.controllers); do
        echo "+$name" >sys/fs/cgroup/cgroup.subtree_control
    done
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    for options in $HIERARCHIES; do
        place=sys/fs/cgroup/${options#none,name=}
        mkdir "$place"
        mount -t cgroup -o "$options" cgroup "$place"
    done
fi

pivot_root . old
umount -l /old
rmdir /old
cd /
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
if [ -n "$SYSTEMD" ]; then
    cat >/etc/systemd/system/lab.service <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=touch /run/booted
END
    exec env container=lab /usr/lib/systemd/systemd --unit=lab.service --show-status=no </dev/null
fi
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
exec catatonit -- sh -c 'touch /run/booted; exec sleep infinity' </dev/null
