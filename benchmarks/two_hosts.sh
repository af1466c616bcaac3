#!/bin/sh
# Runs a script on two ranks, each on a host of its own: two network namespaces of this machine with a link of a rate.
#
#   sh benchmarks/two_hosts.sh 2gbit benchmarks/collectives.py --only step
#
# It takes an administrator, iproute2 and Open MPI 5. Ranks share nothing but the link and the file system.
set -e
rate=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
python=$(command -v python)

clean() {
    ip netns del wengert-a 2>/dev/null || true
    ip netns del wengert-b 2>/dev/null || true
    rm -f "$agent"
}
agent=$(mktemp)
trap clean EXIT
ip netns add wengert-a
ip netns add wengert-b
ip link add eth-a netns wengert-a type veth peer name eth-b netns wengert-b
for host in a b; do
    ip -n wengert-$host link set lo up
    ip -n wengert-$host link set eth-$host up
    ip -n wengert-$host addr add 10.9.0.$([ $host = a ] && echo 1 || echo 2)/24 dev eth-$host
    tc -n wengert-$host qdisc add dev eth-$host root tbf rate "$rate" burst 128kb latency 50ms
done
# What Open MPI starts on the other host in the place of ssh.
cat >"$agent" <<'AGENT'
#!/bin/sh
shift
exec ip netns exec wengert-b unshare --uts sh -c "hostname wengert-b; $*"
AGENT
chmod +x "$agent"
export WENGERT_NUM_THREADS="${WENGERT_NUM_THREADS:-1}" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PYTHONPATH="$here:$here/../src:$PYTHONPATH"
ip netns exec wengert-a unshare --uts sh -c "hostname wengert-a; mpirun --bind-to none \
    --prtemca plm_ssh_agent $agent --prtemca oob_tcp_if_include 10.9.0.0/24 \
    --mca btl tcp,self --mca btl_tcp_if_include 10.9.0.0/24 --host 10.9.0.1:1,10.9.0.2:1 -n 2 \
    -x PATH -x PYTHONPATH -x WENGERT_NUM_THREADS $python -m wengert.distribute script $*"
