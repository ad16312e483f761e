package fleet_test

import (
	"os/exec"
	"syscall"
)

// endWithParent ends a process with the test, however that ends.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
