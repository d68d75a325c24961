#!/bin/bash
# Runs as the first process of a host's new namespaces and ends as its init.
# Environment: NAME, ROOT (the lower layer), DISK (the host's folder), SOURCE (the repository),
# IMAGES (a read-only image store, or nothing), LAYOUT (v2 or v1), MACHINE (shared folder).
set -eu
hostname "$NAME"
mount --make-rprivate /
mkdir -p "$DISK"/{upper,work,root,containers,docker,spotrun,src,src-work}
mount -t overlay lab -o "lowerdir=$ROOT,upperdir=$DISK/upper,workdir=$DISK/work" "$DISK/root"
cd "$DISK/root"
mkdir -p old run tmp var/lib/{containers,docker,spotrun}
for name in containers docker spotrun; do mount --bind "$DISK/$name" "var/lib/$name"; done
mount -t overlay src -o "lowerdir=$SOURCE,upperdir=$DISK/src,workdir=$DISK/src-work" opt/spotrun/src
if [ -n "$IMAGES" ]; then
    mount --bind "$IMAGES" var/lib/lab-images
    [ -w "$IMAGES/.building" ] || mount -o remount,bind,ro var/lib/lab-images
fi
mount --bind "$MACHINE" mnt/machine

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

if [ "$LAYOUT" = v2 ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
        mkdir "sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "sys/fs/cgroup/$controller"
    done
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi

pivot_root . old
umount -l /old
rmdir /old
cd /
[ -n "$IMAGES" ] || sed -i '/additionalimagestores/d' /etc/containers/storage.conf
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
exec catatonit -- sh -c 'touch /run/booted; exec sleep infinity'
