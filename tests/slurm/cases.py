# SPDX-License-Identifier: Apache-2.0
"""Tests the behavior of programs and launchers under Slurm.

Each case gets a `Shell`: commands run on node n1, in a folder that all nodes share. `$PROGRAM`
prints the number of processes and the sum of their ranks; `$TRAINS` trains until a signal requests
a checkpoint, and exits with 75.
"""

import re
from pathlib import Path

from harness import Failed, case

GUIDE = Path(__file__).parents[2] / "docs/guides/launch.md"
LAUNCH = "accelerate launch --cpu"
PER_NODE = "srun --nodes 2 --ntasks 2 --ntasks-per-node 1"
FOUR = "4 processes, sum of ranks 6"
TRAINS = "$TRAINS folder=$PWD/run steps=100000000 request=exit"
ONE_LAUNCHER = (r"error: `srun` started 4 launchers on 2 nodes, but each node needs only one "
                r"launcher, which starts all workers on the node")


def check_saved(shell, result):
    """Checks that all four ranks saved at the same step and that the checkpoint is complete."""
    steps = set(re.findall(r"rank \d exited at step (\d+)", result.output))
    if len(steps) != 1:
        raise Failed(f"the ranks stopped at steps {steps}\n{result.output}")
    result.count(r"rank \d exited at step", 4)
    shell.run("accelerate checkpoint verify run/checkpoints/checkpoint_0").check(0)


# ---- plain cases ------------------------------------------------------------


@case(60)
def launchers_on_two_nodes(shell):
    shell.run(f"{PER_NODE} {LAUNCH} --num_processes 4 $PROGRAM").check(0, FOUR)


@case(60, nodes=3)
def launchers_on_three_nodes(shell):
    shell.run(f"srun --nodes 3 --ntasks-per-node 1 {LAUNCH} --num_processes 6 $PROGRAM").check(
        0, "6 processes, sum of ranks 15")


@case(60)
def programs_on_two_nodes(shell):
    # The first process of each node prints.
    shell.run("srun --nodes 2 --ntasks 4 $PROGRAM").check(0, FOUR).count(FOUR, 2)


@case(60, nodes=3)
def programs_on_three_nodes(shell):
    shell.run("srun --nodes 3 --ntasks 7 $PROGRAM").check(0, "7 processes, sum of ranks 21")


@case(60)
def programs_on_one_node(shell):
    shell.run("srun --nodes 1 --ntasks 3 $PROGRAM").check(0, "3 processes, sum of ranks 3")


@case(60)
def uneven_tasks(shell):
    shell.run("srun --nodes 2 --ntasks 3 $PROGRAM").check(0, "3 processes, sum of ranks 3")


@case(60)
def cyclic_tasks(shell):
    shell.run("srun --nodes 2 --ntasks 4 --distribution cyclic $PROGRAM").check(0, FOUR)


@case(120)
def heterogeneous_job(shell):
    shell.run("salloc --nodes 1 --ntasks 1 : --nodes 1 --ntasks 2 "
              "srun --het-group=0,1 $PROGRAM").check(0, "3 processes, sum of ranks 3")


@case(120)
def array_job(shell):
    number = shell.submit(f"{PER_NODE} {LAUNCH} --num_processes 4 $PROGRAM",
                          "--nodes 2", "--ntasks 2", "--array 0-2")
    shell.wait_until(lambda: "test" not in shell.run(f"squeue --noheader --job {number}").output,
                     lambda: "the array did not end")
    outputs = [path.read_text() for path in sorted(shell.folder.glob("*.out"))]
    if len(outputs) != 3 or not all(FOUR in output for output in outputs):
        raise Failed(f"not three times `{FOUR}`: {outputs}")


@case(60)
def failing_rank_is_reported_with_its_code(shell):
    shell.run(f"{PER_NODE} {LAUNCH} --num_processes 4 "
              "sh -c 'if [ $RANK = 3 ]; then echo ouch >&2; exit 9; fi; exec sleep 50'").check(
        9, "error: rank 3 failed first", "rank 3 on n2, pid", "ouch")

@case(60)
def an_uncaught_exception_is_printed_once(shell):
    shell.run(f"{PER_NODE} {LAUNCH} --num_processes 4 $PROGRAM 3").check(
        134, "error: rank 3 failed first", absent=["terminate called"]).count(
        "the loss is not a number", 1)



@case(60)
def one_node_step_needs_no_options(shell):
    shell.run(f"srun --nodes 1 --ntasks 1 {LAUNCH} --num_processes 2 $PROGRAM").check(
        0, "2 processes, sum of ranks 1")


# ---- 1. signals save a checkpoint ------------------------------------------


def training_job(shell, *options):
    number = shell.submit(f"{PER_NODE} {LAUNCH} --num_processes 4 {TRAINS}; echo code $?",
                          "--nodes 2", "--ntasks 2", *options)
    shell.wait_for_output(number, "trains")
    return number


@case(90)
def scancel_saves(shell):
    number = training_job(shell)
    shell.run(f"scancel {number}").check(0)
    check_saved(shell, shell.wait_for_job(number))


@case(90)
def scancel_of_a_direct_run_saves(shell):
    training = shell.start(f"srun --nodes 2 --ntasks 4 --job-name direct {TRAINS}")
    training.wait_for("trains")
    shell.run("scancel --name direct").check(0)
    training.wait()
    check_saved(shell, training.wait())


@case(120)
def requeue_saves_and_resumes(shell):
    number = training_job(shell, "--requeue", "--open-mode append")
    shell.run(f"scontrol requeue {number}").check(0)
    shell.wait_for_output(number, r"rank \d exited at step")
    shell.start_requeued_job(number)
    shell.wait_for_output(number, r"loaded step [1-9]")
    shell.run(f"scancel {number}").check(0)
    shell.wait_for_job(number)


@case(180)
def time_limit_saves(shell):
    number = training_job(shell, "--time 1")
    check_saved(shell, shell.wait_for_job(number))


@case(120)
def signal_before_the_time_limit_saves(shell):
    number = training_job(shell, "--time 1", "--signal USR1@40")
    result = shell.wait_for_job(number).check(0, "code 75")
    check_saved(shell, result)


# ---- 2. Slurm's own variables ----------------------------------------------


@case(60)
def pmi2(shell):
    shell.run("srun --mpi=pmi2 --nodes 2 --ntasks 4 $PROGRAM").check(0, FOUR)


@case(60)
def pmix(shell):
    shell.run("srun --mpi=pmix --nodes 2 --ntasks 4 $PROGRAM").check(0, FOUR)


@case(60)
def launchers_with_pmi2(shell):
    shell.run(f"srun --mpi=pmi2 --nodes 2 --ntasks 2 --ntasks-per-node 1 "
              f"{LAUNCH} --num_processes 4 $PROGRAM").check(0, FOUR)


# ---- 3. steps smaller than their job ---------------------------------------


@case(90)
def one_node_step_in_a_two_node_job(shell):
    step = "srun --exact --nodes 1 --ntasks 1 --nodelist n2"
    number = shell.submit(
        f"{step} {LAUNCH} --num_processes 2 $PROGRAM && "
        f"{step} $PROGRAM && "
        f"{step} {LAUNCH} sh -c 'echo alone $RANK$GROUP_RANK on $(hostname)'",
        "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_job(number).check(
        0, "2 processes, sum of ranks 1", "1 processes, sum of ranks 0", "alone  ?on n2")


@case(90, nodes=3)
def two_node_step_in_a_three_node_job(shell):
    number = shell.submit(
        "srun --nodes 2 --ntasks 2 --ntasks-per-node 1 --nodelist n2,n3 "
        f"{LAUNCH} --num_processes 4 sh -c '$PROGRAM; echo $RANK on $(hostname)'",
        "--nodes 3", "--ntasks 3")
    shell.wait_for_job(number).check(0, FOUR, "0 on n2", "3 on n3")


@case(90)
def one_step_per_node_with_the_users_machines(shell):
    step = "srun --exact --nodes 1 --ntasks 1 --nodelist"
    launch = (f"{LAUNCH} --num_machines 2 --num_processes 4 --main_process_ip n1 "
              "--main_process_port 24000 --machine_rank")
    number = shell.submit(f"{step} n1 {launch} 0 $PROGRAM & {step} n2 {launch} 1 $PROGRAM; wait",
                          "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_job(number).check(0, FOUR)


# ---- 4. ports ----------------------------------------------------------------


@case(90)
def two_steps_at_once(shell):
    step = f"srun --exact --nodes 2 --ntasks 2 --ntasks-per-node 1 {LAUNCH} --num_processes 4"
    name = "sh -c 'sleep 2 && $PROGRAM && echo $SLURM_STEP_ID of $0'"
    number = shell.submit(f"{step} {name} a & {step} {name} b & wait", "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_job(number).check(0).count(FOUR, 4).count("0 of [ab]", 4).count("1 of [ab]", 4)


@case(90)
def two_steps_at_once_with_the_same_arguments(shell):
    step = (f"srun --exact --nodes 2 --ntasks 2 --ntasks-per-node 1 {LAUNCH} --num_processes 4 "
            "sh -c 'sleep 2 && $PROGRAM'")
    number = shell.submit(f"{step} & {step} & wait", "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_job(number).check(0).count(FOUR, 4)


@case(90)
def two_direct_steps_at_once(shell):
    step = "srun --exact --nodes 2 --ntasks 2 --ntasks-per-node 1 $PROGRAM sleeps"
    number = shell.submit(f"{step} & {step} & wait", "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_output(number, "(?s)2 processes, sum of ranks 1.*2 processes, sum of ranks 1")
    shell.run(f"scancel {number}").check(0)


@case(90)
def jobs_at_once(shell):
    job = f"{PER_NODE} {LAUNCH} --num_processes 4 sh -c 'sleep 2 && $PROGRAM'"
    numbers = [shell.submit(job, "--nodes 2", "--ntasks 2") for _ in range(4)]
    for number in numbers:
        shell.wait_for_job(number).check(0).count(FOUR, 2)


@case(90)
def a_stranger_on_the_users_port_is_refused_with_an_error(shell):
    port = "--main_process_port 24100 --num_processes 2"
    step = "srun --exact --nodes 2 --ntasks 2 --ntasks-per-node 1"
    number = shell.submit(
        f"{step} {LAUNCH} {port} sleep 40 &\n"
        f"while ! srun --overlap --nodes 1 --ntasks 1 sh -c 'ss -ltn | grep -q :24100'; do :; done\n"
        f"{step} {LAUNCH} {port} true; echo code $?; scancel $SLURM_JOB_ID",
        "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_output(number, "code 2")
    shell.wait_for_job(number)
    text = shell.job_output(number)
    for expected in (
            rf"error: this is machine 0 of step \d+ of Slurm job {number}, but n2 belongs to "
            rf"step \d+ of Slurm job {number}",
            "hint: use a different `--main_process_port` for each Slurm step",
            "cannot listen on tcp:n1:24100: Address already in use"):
        if not re.search(expected, text):
            raise Failed(f"no `{expected}`:\n{text}")


# ---- 5. too many launchers ----------------------------------------------------


@case(60)
def several_launchers_per_node_all_stop_at_once(shell):
    shell.run(f"srun --nodes 2 --ntasks 4 {LAUNCH} sleep 50").check(
        2, ONE_LAUNCHER,
        "hint: use `srun --nodes 2 --ntasks 2 --ntasks-per-node 1 accelerate launch …`; for "
        "launches that are independent of each other, add `--num_machines 1`").count(
            ONE_LAUNCHER, 4)


@case(60)
def several_launchers_on_one_node_stop_too(shell):
    shell.run(f"srun --nodes 1 --ntasks 2 {LAUNCH} sleep 50").check(
        2, "error: `srun` started 2 launchers on 1 node,")


@case(60)
def independent_launchers_are_allowed(shell):
    shell.run(f"srun --nodes 2 --ntasks 4 {LAUNCH} --num_machines 1 --num_processes 1 "
              "$PROGRAM").check(0).count("1 processes, sum of ranks 0", 4)


@case(60)
def the_hint_works_in_a_batch_script_with_more_tasks(shell):
    number = shell.submit(f"{PER_NODE} {LAUNCH} --num_processes 4 $PROGRAM",
                          "--nodes 2", "--ntasks-per-node 2")
    shell.wait_for_job(number).check(0, FOUR)


# ---- 6. signals, distributions, reports -----------------------------------------


@case(90)
def sigusr1_to_all_processes_saves(shell):
    number = training_job(shell)
    shell.run(f"scancel --signal USR1 {number}").check(0)
    check_saved(shell, shell.wait_for_job(number).check(0, "code 75"))


@case(60)
def sigusr1_leaves_the_guardians(shell):
    launch = shell.start(f"{PER_NODE} --job-name signalled {LAUNCH} --num_processes 2 "
                         "sh -c 'trap \"echo got it\" USR1; echo ready; while :; do sleep 0.1; done'")
    launch.wait_for("ready", 2)
    shell.run("scancel --name signalled --signal USR1").check(0)
    launch.wait_for("got it", 2)
    # All nodes share one PID namespace.
    shell.wait_until(lambda: shell.run("pgrep --count accelerate-grd").output == "2\n",
                     lambda: "not two guardians among these processes:\n"
                             + shell.cluster.output("ps", "-e", "-o", "pid,ppid,stat,comm"))
    shell.run("scancel --name signalled").check(0)
    launch.wait()


@case(60)
def arbitrary_distribution(shell):
    (shell.folder / "nodes.txt").write_text("n2\nn1\n")
    shell.run("SLURM_HOSTFILE=nodes.txt srun --nodes 2 --ntasks 2 --distribution arbitrary "
              "$PROGRAM").check(0, "2 processes, sum of ranks 1")


@case(60)
def arbitrary_distribution_of_launchers(shell):
    (shell.folder / "nodes.txt").write_text("n2\nn1\n")
    shell.run("SLURM_HOSTFILE=nodes.txt srun --nodes 2 --ntasks 2 --distribution arbitrary "
              f"{LAUNCH} --num_processes 4 $PROGRAM").check(0, FOUR)


LOSES_A_MACHINE = (f"{LAUNCH} --num_processes 4 sh -c "
                   "'if [ $RANK = 3 ]; then kill -KILL $PPID; fi; exec sleep 50'")
LOST = r"machine 1 \(n2, 10\.77\.0\.\d:\d+\) disconnected"


# After a process was killed, `srun` loses the output that has not arrived when
# the last process ends.
@case(120)
def a_lost_machine_is_reported_every_time(shell):
    for _ in range(10):
        shell.run(f"{PER_NODE} {LOSES_A_MACHINE}").check(
            137, f"warning: {LOST}; this launcher is stopping", f"error: {LOST}",
            "the connection to that machine closed unexpectedly",
            "hint: look for an error on that machine first")


# ---- 7. messages ----------------------------------------------------------------


@case(60)
def a_batch_script_without_srun(shell):
    number = shell.submit(f"{LAUNCH} sleep 50", "--nodes 2", "--ntasks 2")
    shell.wait_for_job(number).check(
        2, "error: this Slurm job has 2 nodes, but `srun` did not start this launcher",
        "hint: use `srun --nodes 2 --ntasks 2 --ntasks-per-node 1 accelerate launch …`")


@case(60)
def a_batch_script_on_one_node(shell):
    number = shell.submit(f"{LAUNCH} --num_processes 2 $PROGRAM", "--nodes 1", "--ntasks 2")
    shell.wait_for_job(number).check(0, "2 processes, sum of ranks 1")


@case(60)
def a_node_that_cannot_resolve_the_first_node(shell):
    script = ("if [ $SLURM_NODEID = 1 ]; then mount --bind /dev/null /etc/hosts; fi; "
              f"exec {LAUNCH} --rdzv_timeout 12 sleep 50")
    shell.run(f"{PER_NODE} unshare --mount sh -c '{script}'").check(
        2, "error: this machine cannot resolve `n1`, the name of machine 0",
        "hint: add the name to DNS or to /etc/hosts on every node")


@case(60)
def variables_that_are_missing_or_contradictory(shell):
    for change, text in (
            ("-u SLURM_NODEID", "SLURM_STEP_ID is `0`, but SLURM_NODEID is not set"),
            ("-u SLURM_STEP_NODELIST", "but SLURM_STEP_NODELIST is not set"),
            ("SLURM_NODEID=2", "SLURM_NODEID is `2`, but must be less than SLURM_STEP_NUM_NODES"),
            ("SLURM_STEP_NODELIST=n[1-3]", "a list of 3 nodes, but SLURM_STEP_NUM_NODES is `2`")):
        shell.run(f"{PER_NODE} env {change} {LAUNCH} sleep 50").check(2, text, "hint: ")


@case(60)
def a_direct_run_with_bad_variables(shell):
    shell.run("ulimit -c unlimited; srun --nodes 2 --ntasks 2 env -u SLURM_NODEID $PROGRAM").check(
        2, "error: environment variable SLURM_STEP_NUM_NODES is `2`, but SLURM_NODEID is not set",
        "hint: start the program with `srun`", absent=["core dumped", "Aborted"])
    if list(shell.folder.glob("*core*")):
        raise Failed("the programs left core files")


@case(60)
def examples_do_not_train_on_help(shell):
    for program in ("base", "nlp_example", "complete_nlp_example", "causal_lm"):
        result = shell.run(f"timeout 20 $EXAMPLES/{program} --help")
        if result.code not in (0, 2) or re.search("epoch 0|accuracy on|it/s", result.output):
            raise Failed(f"{program}: exit code {result.code}\n{result.output}")


# ---- 8. the script of the guide -------------------------------------------------


def script_of_the_guide():
    found = re.search(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", GUIDE.read_text(), re.DOTALL)
    if not found:
        raise Failed(f"{GUIDE} has no batch script")
    return found.group(1)


@case(180)
def the_script_of_the_guide(shell):
    """The job is preempted, requeued with its checkpoint, and runs to its end."""
    program = shell.folder / "train"
    program.write_text("#!/bin/sh\nexec $EXAMPLES/complete_nlp_example --num_epochs 2 \"$@\"\n")
    program.chmod(0o755)
    script = script_of_the_guide()
    for line in ("--signal USR1@120", "--requeue", "--gpus-per-node", "75", "latest"):
        if line not in script:
            raise Failed(f"the script has no `{line}`")
    number = shell.submit(script)
    shell.wait_for_output(number, "no checkpoint yet: starting from the beginning")
    shell.wait_for_output(number, "epoch 0: accuracy")
    shell.run(f"scancel --signal USR1 {number}").check(0)
    shell.wait_for_output(number, "warning: the program was preempted and exited")
    shell.start_requeued_job(number)
    shell.wait_for_output(number, r"resumed at step [1-9]\d* in epoch")
    shell.wait_for_job(number).check(0, "epoch 1: accuracy")
