# Counts to $1 ten times a second, or until there is /end, and ends with $2; on the way it changes
# its root file system.
rm /data/1
mkdir /made && chown 7:8 /made && chmod 750 /made
echo changed > /data/2 && chmod 640 /data/2
ln /data/2 /made/link
ln -s /data/2 /made/symbolic
truncate -s 10000000 /made/sparse
mknod /made/null c 1 3
mknod /made/fifo p
exec 5>/deleted && rm /deleted
i=0
while [ $i -lt "$1" ] && [ ! -e /end ]; do
    echo "$i"
    echo "error $i" >&2
    echo "$i" >&5
    echo "$i" > /made/n
    i=$((i + 1))
    sleep 0.1
done
exit "$2"
