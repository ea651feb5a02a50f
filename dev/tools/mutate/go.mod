module github.com/signalbox-go/signalbox/dev/tools/mutate

go 1.25.0
