echo hello

true

false

exit 7

exit 300

echo out; echo err >&2; exit 3

echo "$0"

echo "$0 $#" "$@"

echo "$-"

echo "$_"

echo "$_"; echo a b; echo "$_"

echo "$SHLVL"

[[ $$ == "$BASHPID" ]] && echo same

[[ $$ == "$(echo $$)" ]] && echo same; [[ $$ != "$(echo "$BASHPID")" ]] && echo other

echo "$PPID"

(echo "$BASH_SUBSHELL"; [[ $BASHPID != "$$" ]] && echo other)

echo "$BASH" "$BASH_VERSION" "${BASH_VERSINFO[@]}"

echo "$BASH_EXECUTION_STRING"

echo "$BASH_ARGV0"; BASH_ARGV0=other; echo "$0"

echo "$BASHOPTS"; echo "$SHELLOPTS"

echo "$HOSTTYPE $MACHTYPE $OSTYPE"

echo "$IFS" | od -c

echo "$PWD $OLDPWD"; pwd; pwd -P; cd /tmp; pwd; cd -; echo "$OLDPWD"

echo "$UID $EUID"; id -u; id -G

echo "$SECONDS"; sleep 1.1; ((SECONDS >= 1 && SECONDS <= 3)) && echo passed

((EPOCHSECONDS - $(date +%s) <= 1)) && echo now

echo "$LINENO"; echo "$LINENO"

f() { echo "$FUNCNAME ${FUNCNAME[*]} ${BASH_LINENO[*]} ${BASH_SOURCE[*]}"; }; f

echo "${BASH_SOURCE[0]}|${BASH_SOURCE[*]}|${#BASH_SOURCE[@]}"

echo "$OPTIND $OPTERR"; while getopts ab: o -a -b c; do echo "$o $OPTARG"; done

echo "$PS4 $PS1 $PS2"

echo "$HISTCMD $HISTFILE $HISTSIZE"; history; set -o history; history

echo "$COLUMNS $LINES"; shopt checkwinsize

echo "$HOSTNAME"

echo "$GROUPS" "${GROUPS[@]}"

echo "$DIRSTACK"; pushd /tmp; dirs; popd

echo "$COMP_WORDBREAKS" | od -c

[[ $RANDOM != "$RANDOM$RANDOM" ]] && echo random

RANDOM=5; echo $RANDOM $RANDOM $RANDOM

[[ -n $SRANDOM ]] && echo random

env

printenv

export -p

declare -x

declare -r

declare -F

declare -i

declare -p BASH_VERSINFO SHELLOPTS UID PPID

compgen -v | sort

compgen -e | sort

set | grep -v -e ^BASHPID -e ^EPOCH -e ^RANDOM -e ^SRANDOM -e ^SECONDS -e ^PIPESTATUS -e ^_=

set -o

shopt

shopt -p

enable

alias; shopt -s expand_aliases; alias x='echo aliased'; eval x

hash; ls / >/dev/null; hash | grep -c ls

umask; umask -S; umask 027; umask; touch made; stat -c %a made; rm made

ulimit -a | grep -v 'file locks'

ulimit -Ha

ulimit -n 20; ulimit -n; bash -c 'ulimit -n'

ulimit -c; ulimit -f; ulimit -v 1000000; ulimit -v

times >/dev/null; echo $?

trap -p

trap 'echo bye' EXIT; echo hi

trap 'echo bye' EXIT; exit 5

trap 'echo got TERM' TERM; kill -TERM $$; echo after

trap '' INT; trap -p; bash -c 'trap -p'

trap 'echo err $?' ERR; false; echo after

trap 'echo debug' DEBUG; :; :

trap 'echo return' RETURN; f() { :; }; f

trap 'echo usr' USR1; (kill -USR1 $$); sleep 0.05; echo done

kill -TERM $$; echo never

kill -KILL $$; echo never

kill -INT $$; echo never

kill -HUP $$; echo never

kill -SEGV $$; echo never

kill -ABRT $$; echo never

(sleep 0.2; kill -CONT $$) & kill -STOP $$; echo continued; wait

kill -0 $$; echo $?

kill -0 1; echo $?

kill -l

set -e; false; echo never

set -e; false || echo or; (false); echo never

set -e; f() { false; echo in; }; f || echo or; f; echo never

set -u; echo "$undefined"; echo never

set -eu -o pipefail; false | true; echo never

set -o pipefail; true | false | true; echo $? "${PIPESTATUS[@]}"

true | false | true; echo "${PIPESTATUS[@]}"

set -x; echo traced; a=1; ((a++)); [[ $a == 2 ]]

set -v; echo verbose

set -n; echo never

set -f; echo *; set +f; echo /usr/*bin

set -C; echo a >noclobber; echo b >noclobber; echo $?; rm noclobber

set -a; exported=1; env | grep exported

set -k; echo a=b; env a=b printenv a

set -m; sleep 0.01 & wait; jobs; echo done

set -- a b c; echo "$# $*"; shift; echo "$1"

set -b; set -h; set -B; set -H; echo "$-"

set -o posix; echo "$-"; echo "$POSIXLY_CORRECT"; set -o | grep posix

shopt -s nullglob; echo none*; shopt -u nullglob; echo none*

shopt -s failglob; echo none*; echo never

shopt -s extglob; echo /@(usr|etc)

shopt -s globstar dotglob; mkdir -p g/.h; touch g/.h/f; echo g/**; rm -r g

shopt -s lastpipe; echo a | read -r b; echo "$b"

shopt -s inherit_errexit; set -e; echo "$(false; echo never)"; echo never

exec echo replaced

exec -a name bash -c 'echo "$0"'

exec -c env

exec 3>&1; echo three >&3; exec 3>&-; echo closed >&3

exec 2>&1; echo err >&2; ls /none

exec >file; echo hidden; cat file >&2; rm file

exec </dev/null; cat; echo end

exec 5<>/dev/null; ls /proc/self/fd | wc -l

(exit 4); echo $?

( ( ( exit 9 ) ) ); echo $?

bash -c 'exit 11'; echo $?

bash -c 'echo "$0 $1"' zero one

sh -c 'echo $0; exit 2'; echo $?

sleep 0.01 & wait $!; echo $?

sleep 100 & kill $!; wait $!; echo $?

(exit 3) & wait $!; echo $?

for i in 1 2 3; do (exit $i) & done; wait; echo all $?

(sleep 0.05; exit 6) & wait -n; echo $?

sleep 0.05 & jobs; jobs -p | wc -l; wait

sleep 1 & disown; jobs; kill $!

coproc { read -r line; echo "got $line"; }; echo hi >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; echo "$answer"

fg; bg; echo $?

suspend; echo $?

cat

cat; echo end

read -r line; echo "$line $?"

while read -r line; do echo "[$line]"; done

mapfile -t lines; echo "${#lines[@]} ${lines[*]}"

read -r -n 3 few; echo "$few"; cat

read -r -t 0; echo $?

head -n 1; cat

bash -c 'read -r a; echo "inner $a"'; read -r b; echo "outer $b"

wc -c

cat <<<here

cat <<EOF
$HOME
EOF

cat <<'EOF'
$HOME
EOF

cat <(echo a) <(echo b)

echo x | tee >(cat >&2) >/dev/null; sleep 0.5

diff <(printf '1\n2\n') <(printf '1\n3\n')

[[ -t 0 ]]; echo $?; [[ -t 1 ]]; echo $?; [[ -t 2 ]]; echo $?; tty

test -p /dev/stdin; echo $?; test -p /dev/stdout; echo $?

ls -l /proc/$$/fd >list; awk 'NR>1 {print $9}' list; rm list

ls /proc/$$/fd; :

for n in 0 1 2; do readlink /proc/$$/fd/$n | sed 's/[0-9]*//g'; done

cat /proc/$$/fdinfo/0 | grep flags; :

grep -h flags /proc/$$/fdinfo/[012]; :

tr '\0' '\n' </proc/$$/cmdline; :

tr '\0' '\n' </proc/$$/environ; :

cat /proc/$$/cmdline /proc/$$/environ | wc -c

cat /proc/$$/comm; :

cat /proc/$$/limits | grep -v 'file locks'; :

readlink /proc/$$/exe /proc/$$/cwd /proc/$$/root; :

sleep 0.3; cat /proc/$$/oom_score_adj; :

while read -r name value; do case $name in Pid: | NSpid: | Tgid: | Ngid: | NStgid: | NSpgid: | NSsid: | Vm* | Rss* | *ctxt*) ;; *) echo "$name $value" ;; esac; done </proc/$$/status

cat /proc/$$/personality 2>/dev/null; echo $?

cat /proc/$$/attr/current 2>/dev/null; echo $?

cat /proc/$$/cgroup | wc -l; :

cat /proc/$$/timerslack_ns /proc/$$/coredump_filter /proc/$$/loginuid 2>/dev/null; echo $?

od -A n -t d8 /proc/$$/auxv | awk '$1 == 6 || $1 == 11 || $1 == 12 || $1 == 17 || $1 == 23 {print}'; :

awk '{print $2, $4, $5 == $1, $6 == $1, $7, $8, $18, $19, $20}' /proc/$$/stat; :

[[ $(ps -o pgid= -p $$) -eq $$ && $(ps -o sid= -p $$) -eq $$ ]] && echo leader

ps -o tty=,ni=,cls=,args= -p $$; :

(ps -o pgid= -p "$BASHPID"; echo $$) | uniq | wc -l

stat -c '%U %a' /proc/$$ /proc/$$/environ; :

head -c 10 /proc/$$/mem 2>/dev/null; echo $?

cat /proc/$$/stack 2>/dev/null | wc -l; :

ls /proc/$$/task | wc -l; :

ls -d /proc/[0-9]* >/dev/null; echo $?

nice; nice -n 3 nice

taskset -p $$ 2>/dev/null | sed 's/.*: //'

chrt -p $$ 2>/dev/null | sed 's/.*: //'

ionice -p $$

prlimit --pid $$ --output RESOURCE,SOFT,HARD | grep -v LOCKS

nohup echo kept 2>/dev/null

setsid echo other session

timeout 0.1 sleep 5; echo $?

{ time :; } 2>&1 | grep -c real

locale

locale charmap

LC_ALL=C locale charmap

echo äöü | wc -m; x=äöü; echo ${#x} "${x:1:1}" "${x^^}"

LC_ALL=C; x=äöü; echo ${#x}

printf '%s\n' b A a B | sort

printf '%q %s %d %x %05.2f %b %c\n' 'a b' s 42 255 1.5 '\t.' xyz

printf '%(%Y)T\n' 0; printf -v v %03d 7; echo "$v"

printf '\u20ac\n'; echo -e '\xe2\x82\xac \U1F600'

echo $'a\tb'; echo -n no newline

echo {1..5} {a..e..2} {x,y}{1,2}

echo ~ ~root ~nobody; echo ~+ ~-

echo $((2**10)) $((16#ff)) $((7 / 2)) $((-7 % 3)); ((0)); echo $?

echo $((1 / 0)); echo never

let a=3 b=a*2; echo $a $b

a=(1 2 3); a+=(4); echo "${a[@]: -2} ${#a[@]} ${!a[@]}"; unset 'a[1]'; declare -p a

declare -A m=([k]=v [l]=w); echo "${m[k]} ${#m[@]}"; for k in "${!m[@]}"; do echo "$k"; done | sort

declare -n r=target; target=1; r=2; echo $target

declare -i n=5+5; echo $n; declare -u up=abc; echo $up; declare -l low=ABC; echo $low

readonly fixed=1; fixed=2; echo $?

local x; echo $?

f() { local x=1; g; }; g() { echo "$x"; x=2; }; f; echo "$x"

f() { return 42; }; f; echo $?

f() { f2() { echo nested; }; f2; }; f; f2

unset -f none; unset HOME; echo ~; echo "$HOME"

x=abcabc; echo "${x/b/X} ${x//b/X} ${x#a} ${x%c} ${x:1:2} ${x^} ${x@Q} ${x@A}"

echo "${undefined:-default} ${undefined:+set} ${undefined:=assigned} $undefined"

echo "${undefined:?message}"; echo never

case abc in a*) echo one;;& *c) echo two;; *) echo three;; esac

[[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"

[[ a < b && 1 -lt 2 && -d / && ! -e /none ]] && echo yes

test 1 -eq 2; echo $?; [ ]; echo $?; [ a = a -a b = b ]; echo $?

if false; then echo a; elif true; then echo b; else echo c; fi

while true; do break; done; until false; do break; done; echo ended

for ((i = 0; i < 3; i++)); do [[ $i == 1 ]] && continue; echo $i; done

select x in a b; do echo "$x"; break; done

eval 'echo evaluated; exit 3'

source /dev/stdin

. /none; echo $?

none_such_command; echo $?

/none/such; echo $?

/etc/passwd; echo $?

/; echo $?

./none.sh; echo $?

printf '#!/bin/bash\necho script $0 $$ | wc -w\n' >s; chmod +x s; ./s; rm s

printf 'echo plain "$0"\n' >s; chmod +x s; ./s; bash s; . ./s; rm s

echo "unterminated

echo )

if then

echo a; ( ; echo b

type echo if ls f; type -t cd; type -p ls; command -v ls; command -V cd

builtin echo a; command echo b; enable -n echo; type -t echo

help true

help nosuch

caller; f() { caller 0; }; f

bind -v 2>&1 | head -1

complete -p; compgen -A signal | head -3

ls /none; echo $?

ls / | head -1; echo "${PIPESTATUS[@]}"

yes | head -n 2; echo "${PIPESTATUS[@]}"

cat /etc/passwd | grep -c root; wc -l </etc/hosts >/dev/null

mkdir -p d/e; cd d/e; pwd; rmdir ../e; pwd; cd ..; rmdir ../d

cd /none; echo $?; cd; pwd

echo a >f; cat f; echo b >>f; cat <f; rm f; cat f; echo $?

find . -maxdepth 1 -newer /etc/passwd -name none; echo $?

mktemp -u | sed 's/\..*//'; echo "$TMPDIR"

date -u -d @0; TZ=Asia/Tokyo date -d @0; echo "$TZ"

TZ=America/New_York; export TZ; printf '%(%H)T\n' 0

python3 -c 'import os,sys; print(os.getpid() != os.getppid(), sys.argv, sys.stdin.encoding, os.environ["HOME"])'

python3 -c 'import signal; print([s for s in range(1, 65) if s not in (32, 33) and signal.getsignal(s) not in (signal.SIG_DFL, None)])'

python3 -c 'import resource; print([(n, resource.getrlimit(getattr(resource, n))) for n in sorted(dir(resource)) if n.startswith("RLIMIT")])'

python3 -c 'import os; print(os.sched_getaffinity(0) == os.sched_getaffinity(1), os.getpriority(0, 0), os.umask(0))'

python3 -c 'import locale; print(locale.setlocale(locale.LC_ALL, ""))'

python3 -c 'import os; os.kill(os.getppid(), 0); print(os.getsid(0) == os.getpgid(0))'

python3 -c 'import sys; sys.exit(33)'; echo $?

node -e 'console.log(process.argv.length, process.env.HOME, process.exitCode)'

perl -e 'print "$0 @ARGV $ENV{HOME}\n"; exit 3'; echo $?

git --version; git -c alias.x='!echo $0 $#' x 2>&1 | tail -1

awk 'BEGIN {print ENVIRON["HOME"]; exit 4}'; echo $?

xargs -n 1 echo <<<'a b'

env -i bash -c 'env; echo $-'

env -u HOME bash -c 'echo "${HOME-unset}"'

LD_PRELOAD= env | grep -c LD_PRELOAD

env | grep -e LD_ -e SANDBOX_AGENT

ldd "$BASH" | sed 's/0x[0-9a-f]*//'

(unset LD_PRELOAD; echo ${LD_PRELOAD+set})

bash --version | head -1

bash -l -c 'shopt login_shell; echo $0'

bash --norc --noprofile -c 'echo $-'

bash -i -c 'echo $-' 2>/dev/null

bash -s <<<'echo from stdin $0'

shopt login_shell; echo "$PROFILEREAD"

shopt -q login_shell; echo $?

logout; echo $?

echo "$BASH_ENV|$ENV"

BASH_ENV=/dev/stdin bash -c :

exec {fd}</etc/hostname; echo $((fd >= 10)); exec {fd}<&-

exec 9</dev/null; ls /proc/$$/fd; :

sleep 0.02 | sleep 0.02 | echo piped

: | : ; echo $? "${PIPESTATUS[@]}"

! true; echo $?; ! false; echo $?

{ echo group; exit 8; }; echo never

true && false || echo or; true; false; exit

echo $?; false; echo $?

x=1 y=2 env | grep -e ^x= -e ^y=; echo "$x"

a=$(exit 5); echo $?; local_=$(echo out; exit 6); echo "$? $local_"

echo "$(<// 2>&1)" | head -1; echo $(</etc/hostname) | wc -l

echo `echo back\`echo tick\``

echo "$(cat <<EOF
in
EOF
)"

readonly -p | grep -c BASHOPTS; unset UID; echo $?

ulimit -S -s; ulimit -H -s

ulimit -u; ulimit -i; ulimit -q; ulimit -l

sleep infinity & echo started

(sleep 300 &) ; echo detached

sleep 300 & exit 2

exec sleep 0.05

kill $(jobs -p); echo $?

wait 99999; echo $?; wait; echo $?

echo "$!"; : & [[ -n $! ]] && echo set

mkfifo p; (echo through >p &); cat p; rm p

flock . echo locked

stty size; echo $?

clear | wc -c; tput cols; echo "$TERM"

echo "${LANG} ${LC_ALL} ${LANGUAGE}"

export LC_ALL=C; bash -c 'locale charmap'

caller 5; echo "${#FUNCNAME[@]}"

dirs -v; echo "${#DIRSTACK[@]}"

unset PATH; ls; echo $?; echo still

PATH=; ls; echo $?

PATH=/none:$PATH; ls / >/dev/null; echo $?

cd /usr && ls -d b* && cd ~ && pwd

cd -P /bin && pwd; cd -L /bin && pwd

printf 'a\0b' | od -c

head -c 100000 /dev/zero | wc -c

seq 1 3000 | tail -1; seq 1 3000 | md5sum

for i in {1..300}; do echo line $i; done | md5sum

echo a >&2 | cat; echo b 2>&1 >/dev/null

{ echo o; echo e >&2; } 2>&1 | cat; { echo o; echo e >&2; } >/dev/null

read -r a b <<<'1 2 3'; echo "$b"; IFS=, read -r a b <<<'1,2'; echo "$a|$b"

IFS=:; set -- $PATH; echo "$#"

echo "a  b"; echo a  b; x='a  b'; echo $x "$x"

function spaced { echo spaced; }; spaced; export -f spaced; bash -c spaced

export -n HOME; env | grep -c ^HOME=; echo "$HOME"

typeset -p HOME; typeset -f | wc -l

hash -r; hash -p /bin/echo e; e hashed; hash -t e

shopt -s compat50 2>&1; echo "$BASH_COMPAT"; BASH_COMPAT=42; shopt compat42

echo "$BASH_MONOSECONDS" | wc -c; echo "${BASH_LOADABLES_PATH}"

[[ -v HOME && ! -v none ]] && echo yes; [[ -o errexit ]]; echo $?; [[ -R r ]]; echo $?

echo "${BASH_CMDS[*]}|${BASH_ALIASES[*]}"
