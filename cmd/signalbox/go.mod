module github.com/signalbox-go/signalbox/cmd/signalbox

go 1.25.0

require (
	github.com/signalbox-go/signalbox v0.0.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	golang.org/x/sys v0.47.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sync v0.21.0 // indirect
)

replace github.com/signalbox-go/signalbox => ../../
